"""The plain `generate` loop, a thread for each request: `python -m voxrtc.bench.baselines.thread_per_request --listen …`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from voxrtc.bench.baselines.plain import serve

THREADS = 1  # of torch; with two, requests that run at a time get in each other's way
REQUESTS = 1000  # at a time; more than any run has

if __name__ == "__main__":
    serve(ThreadPoolExecutor(REQUESTS), THREADS)
