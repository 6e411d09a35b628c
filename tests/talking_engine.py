"""A real engine with the tiny speech-to-speech model, in this process: for tests of everything above the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tests.engine.talker import Talker
from tests.engine.toy import INFO
from voxrtc.engine.client import EngineLost
from voxrtc.engine.loop import Engine
from voxrtc.engine.worker import Worker
from voxrtc.messages.conversation import Hear
from voxrtc.messages.engine import Cancel, EngineReply, EngineRequest, Generate
from voxrtc.messages.model import Progress, Watch
from voxrtc.speechlm.base import Utterance

TALKER_MODEL = msgspec.structs.replace(INFO, name="talker", title="Talker", kind="speech to speech")


class Noting(Talker):
    """Keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Utterance] = []

    def preprocess(self, utterance: Utterance):  # type: ignore[no-untyped-def]
        self.asked.append(utterance)
        return super().preprocess(utterance)


class TalkingTransport:
    """`Transport` to that engine, on its own thread until `close`. `requests` keeps what was asked."""

    def __init__(self) -> None:
        self.info, self.model, self.lost = TALKER_MODEL, Noting(), False
        self.requests: list[EngineRequest] = []
        self.engine = Engine(Worker(self.model, slots=4, pages=32, page_size=32), self.info)
        self.engine._thread.start()  # cold: nobody measures it

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None:
        self._loop, self._on_reply, self._on_lost = asyncio.get_event_loop(), on_reply, on_lost
        on_reply(Progress(state="ready", info=self.info))

    def send(self, request: EngineRequest) -> None:
        if self.lost:
            raise EngineLost("the engine is gone")
        self.requests.append(request)
        if not isinstance(request, Watch):
            self.engine.submit(request, lambda reply: self._loop.call_soon_threadsafe(self._on_reply, reply))

    @property
    def generated(self) -> list[Generate]:
        return [request for request in self.requests if isinstance(request, Generate)]

    @property
    def cancelled(self) -> list[str]:
        return [request.stream for request in self.requests if isinstance(request, Cancel)]

    @property
    def heard(self) -> list[Hear]:
        return [request for request in self.requests if isinstance(request, Hear)]

    async def close(self) -> None:
        self.engine.stop()
