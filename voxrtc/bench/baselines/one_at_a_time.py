"""The plain `generate` loop, requests in a queue: `python -m voxrtc.bench.baselines.one_at_a_time --listen ipc://…`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from voxrtc.bench.baselines.plain import serve

THREADS = 1  # of torch; two are a little faster alone, but crawl as soon as anything else wants a core

if __name__ == "__main__":
    serve(ThreadPoolExecutor(1), THREADS)
