"""People in WebRTC calls, as long as it takes: each has things said, breaks in, and goes on. They keep nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from typing import Any

import httpx
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from tests.rtc.browser import Browser
from voxrtc.crowd.texts import text_of

SENTENCE = (2.0, 5.0)  # seconds
BREAKS_IN = 1.0  # seconds into a sentence that is broken in on
AGAIN = 0.5  # seconds until one who was refused asks again
SDP = {"content-type": "application/sdp"}


class Person(Browser):
    """Says `response.create` and hears; `counts` are events, `underruns` those that were told of their sound."""

    def __init__(self, direction: str = "recvonly") -> None:
        super().__init__(direction)
        self.counts: Counter[str] = Counter()
        self.underruns = 0
        self.refusals: list[str] = []  # codes

    async def call(self, http: httpx.AsyncClient) -> str:
        """Where the call is, to be deleted."""
        answer = await http.post("/v1/realtime/calls", content=await self.offer(), headers=SDP)
        assert answer.status_code == 201, answer.text
        await self.accept(answer.text)
        return answer.headers["location"]

    async def until(self, *types: str) -> None:
        """One more event of one of these types."""
        before = sum(self.counts[type] for type in types)
        async with self._came:
            await self._came.wait_for(lambda: sum(self.counts[type] for type in types) > before)

    async def converse(self, until: float, seed: int) -> None:
        """Sentence after sentence, every other one of which is broken in on."""
        rng = random.Random(seed)
        while time.monotonic() < until:
            failed = len(self.refusals)
            self.have_said(text_of(rng.uniform(*SENTENCE), rng))
            await self.until("output_audio_buffer.started", "error")
            if len(self.refusals) > failed:
                await asyncio.sleep(AGAIN)
            elif rng.random() < 0.5:
                await asyncio.sleep(BREAKS_IN)
                self.send("output_audio_buffer.clear")
                await self.until("voxrtc.playout", "error")
            else:
                await self.until("voxrtc.playout", "error")

    async def _take(self, event: dict[str, Any]) -> None:
        self.counts[event["type"]] += 1
        self.underruns += event.get("underruns", 0)
        if event["type"] == "error":
            self.refusals.append(event["error"]["code"])
        async with self._came:
            self._came.notify_all()

    async def _listen(self, track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                await track.recv()
