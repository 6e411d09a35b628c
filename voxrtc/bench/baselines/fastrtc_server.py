"""A fastrtc server that makes the tone of `bench.tones` for whoever connects, as fastrtc's users make speech.

Runs in an environment that has fastrtc: `python fastrtc_server.py PORT`. Knows nothing of this project.
"""

from __future__ import annotations

import asyncio
import sys
import time

import aioice.ice
import numpy as np
import uvicorn
from fastapi import FastAPI
from fastrtc import AsyncStreamHandler, Stream

RATE, CHUNK, AHEAD = 24_000, 0.1, 0.5  # Hz; seconds of a chunk, and made ahead
TONE = (8_000 * np.sin(2 * np.pi * 440 * np.arange(round(CHUNK * RATE)) / RATE)).astype(np.int16)[None]


class Tone(AsyncStreamHandler):
    """Says it chunk by chunk, and lets what the person says go by."""

    def __init__(self) -> None:
        super().__init__(output_sample_rate=RATE, input_sample_rate=16_000)
        self._made, self._began = 0, 0.0

    def copy(self) -> Tone:
        return Tone()

    async def start_up(self) -> None:
        self._began = time.monotonic()

    async def receive(self, frame: tuple[int, np.ndarray]) -> None:
        pass

    async def emit(self) -> tuple[int, np.ndarray]:
        await asyncio.sleep((self._began or time.monotonic()) + self._made * CHUNK - AHEAD - time.monotonic())
        self._made += 1
        return RATE, TONE


def main() -> None:
    # aioice offers no loopback addresses by itself, and here are no others.
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"] if use_ipv4 else []
    app = FastAPI()
    Stream(Tone(), modality="audio", mode="send-receive", concurrency_limit=1000).mount(app)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
