"""The plain `generate` loop, a thread for each request: `python -m voxrtc.bench.baselines.thread_per_request --listen …`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from voxrtc.bench.baselines.plain import serve

THREADS = 2  # of torch; three requests at a time are spoken at 9.2 times real time, against 8.6 with one
REQUESTS = 1000  # at a time; more than any run has

if __name__ == "__main__":
    serve(ThreadPoolExecutor(REQUESTS), THREADS)
