"""The plain `generate` loop, requests in a queue: `python -m voxrtc.bench.baselines.one_at_a_time --listen ipc://…`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from voxrtc.bench.baselines.plain import serve

THREADS = 2  # of torch; 8.7 times real time, against 8.1 with one

if __name__ == "__main__":
    serve(ThreadPoolExecutor(1), THREADS)
