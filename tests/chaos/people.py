"""People in WebRTC calls, as long as it takes: each has things said, breaks in, and goes on. They keep nothing."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from tests.rtc.browser import Deaf
from voxrtc.crowd.texts import text_of

SENTENCE = (2.0, 5.0)  # seconds
BREAKS_IN = 1.0  # seconds into a sentence that is broken in on
AGAIN = 0.5  # seconds until one who was refused asks again


class Person(Deaf):
    """Says `response.create` and hears; `underruns` are those that were told of its sound."""

    def __init__(self, direction: str = "recvonly") -> None:
        super().__init__(direction)
        self.underruns = 0
        self.refusals: list[str] = []  # codes

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
        self.underruns += event.get("underruns", 0)
        if event["type"] == "error":
            self.refusals.append(event["error"]["code"])
        await super()._take(event)
