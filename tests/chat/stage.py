"""A session on a stage: a tone for an engine, a real track on a clock of its own, a line that keeps what is sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from typing import Any

import numpy as np
from aiortc.mediastreams import MediaStreamError

from tests import waiting
from tests.fake_engine import TONE_MODEL, ToneTransport, tones
from tests.fake_hearing import Hearing, loudness
from tests.rtc.test_track import Time
from tests.waiting import PATIENCE
from voxrtc.chat.choice import choose
from voxrtc.chat.manner import Manner
from voxrtc.chat.reply import Replier
from voxrtc.chat.session import Session
from voxrtc.chat.tally import Tally
from voxrtc.chat.turns import TurnSettings
from voxrtc.messages.engine import Cancel, Generate, Playout, Reference
from voxrtc.messages.model import ModelInfo
from voxrtc.rtc.microphone import BLOCK, BLOCK_SECONDS
from voxrtc.rtc.track import PlayoutTrack

LOUD = 8_000
LONG = " ".join(["word"] * 100)  # 10 s of tone: more than the track's queue holds


class Stage:
    """`Line` and client in one. `async with` it: the track then runs as fast as its packets are taken."""

    paced = True
    packets = 0

    def __init__(
        self,
        speed: float = 0.0,
        models: list[ModelInfo] | None = None,
        replier: Replier | None = None,
        transports: list[Any] | None = None,
    ) -> None:
        self.tones = transports or [ToneTransport(speed, info) for info in models or [TONE_MODEL]]
        self.tone, self.engines = self.tones[0], tones(*self.tones)
        self.hearing, self.tally = Hearing(), Tally()
        self.recordings: dict[str, Reference] = {}
        choice = choose(self.engines.known, None, None)
        parts = (loudness, choice, TurnSettings(), replier, Manner("Be brief."), self.tally, self.recordings)
        self.session = Session(self.engines, self.hearing, *parts)
        time = Time()
        self.track = PlayoutTrack(self.session, time, time.sleep)
        self.session.line = self
        self.events: list[dict[str, Any]] = []
        self._came = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Stage:
        self.session.opened()
        self._keep(self._play())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.track.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- the line ---

    def send(self, text: str) -> None:
        self.events.append(json.loads(text))
        self._keep(self._notify())

    # --- the client ---

    def do(self, type: str, **fields: Any) -> None:
        """Send a client event."""
        self.session.received(json.dumps({"type": type, **fields}))

    def item(self, text: str, **fields: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        self.do("conversation.item.create", item={"type": "message", "role": "user", "content": content}, **fields)

    def say(self, text: str) -> None:
        self.item(text)
        self.do("response.create")

    def hear(self, seconds: float, speech: bool = True) -> None:
        """So much of the microphone, at once: speech or silence. In whole blocks."""
        for _ in range(round(seconds / BLOCK_SECONDS)):
            self.session.heard(np.full(BLOCK, LOUD if speech else 0, np.int16))

    async def event(self, type: str, number: int = 1) -> dict[str, Any]:
        """The `number`th event of this type, come or to come."""
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: len(self.all(type)) >= number), PATIENCE)
        return self.all(type)[number - 1]

    def all(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [event["error"] for event in self.all("error")]

    # --- the engine ---

    def generated(self) -> list[Generate]:
        return [request for request in self.tone.requests if isinstance(request, Generate)]

    def cancelled(self) -> list[str]:
        return [request.stream for request in self.tone.requests if isinstance(request, Cancel)]

    def playouts(self) -> list[Playout]:
        return [request for request in self.tone.requests if isinstance(request, Playout)]

    def _keep(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._came:
            self._came.notify_all()

    async def _play(self) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                await self.track.recv()
                await asyncio.sleep(0)  # others have a turn between two packets, as they have on a real clock


until = partial(waiting.until, every=0)
"""Lets the loop turn until something is true."""
