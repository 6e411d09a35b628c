"""Interruptions in a row, with the real voice: sound comes back each time, and the history is what was heard.

`make interruptions` has 55 of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
from collections.abc import AsyncGenerator, Callable

import numpy as np
import pytest
import soxr
from aiortc.mediastreams import MediaStreamError

from tests.chat.stage import Stage, until
from tests.chat.test_listening import said
from tests.e2e.ear import RATE as EAR
from tests.e2e.ear import transcribe
from tests.rtc.sounds import decode
from voxrtc.chat.reply import Ask, Said
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.loop import Engine
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import Chunk, EngineReply, EngineRequest, Generate
from voxrtc.messages.model import ModelInfo, Progress, Watch
from voxrtc.rtc.sound import RATE
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry

TIMES = int(os.environ.get("VOXRTC_INTERRUPTIONS", "2"))
REPLIES = (
    "Sure, I can help you with that. First, open the window and let some fresh air in. Then sit down for a minute, and tell "
    "me what you would like to know about the garden.",
    "The train leaves early in the morning, and the ticket is not expensive. If you travel on Sunday, it is a little cheaper. "
    "You should be at the station ten minutes before.",
    "That is a good question! There are several reasons for it. People like to cook at home, they want to save money, and they "
    "have more time in the evening than they used to have.",
    "Well, the river is very long, and it runs through four countries before it reaches the sea. Many birds live near the "
    "water, and in the summer children swim there after school.",
)


class InProcess:
    """A `Transport` to an engine on a thread of its own."""

    def __init__(self, engine: Engine, info: ModelInfo) -> None:
        self.engine, self.info = engine, info
        self.spoken: dict[str, list[tuple[float, float, int]]] = {}  # of each stream, as its chunks tell
        self.requests: list[EngineRequest] = []

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None:
        self.on_reply = on_reply
        on_reply(Progress(state="ready", info=self.info))

    def send(self, request: EngineRequest) -> None:
        loop = asyncio.get_running_loop()
        self.requests.append(request)
        if not isinstance(request, Watch):
            self.engine.submit(request, lambda reply: loop.call_soon_threadsafe(self._take, reply))

    def _take(self, reply: EngineReply) -> None:
        if isinstance(reply, Chunk):
            words = [(each.begin, each.end, each.characters) for each in reply.spoken]
            self.spoken.setdefault(reply.stream, []).extend(words)
        self.on_reply(reply)

    async def close(self) -> None:
        pass


class Talkative:
    """A `Replier` whose answers come token by token."""

    def __init__(self) -> None:
        self.asked: list[list] = []  # type: ignore[type-arg]

    async def reply(self, ask: Ask) -> AsyncGenerator[str, None]:
        answer = REPLIES[len(self.asked) % len(REPLIES)]
        self.asked.append(ask.messages)
        for token in re.findall(r" ?\S{1,5}", answer):
            await asyncio.sleep(0.003)
            yield token


class Listening(Stage):
    """It plays as fast as the engine makes sound, and keeps what was sent."""

    def __init__(self, transport: InProcess, replier: Talkative) -> None:
        super().__init__(replier=replier)  # type: ignore[arg-type]
        engines, session = Fleet({transport.info.name: transport}), self.session
        session._engines = session.speaking._engines = session._answerer._engines = engines
        self.session._choice = self.session._choice.__class__(transport.info.name, "default")
        self.packets: list[bytes] = []
        self.marks: list[int] = []  # packets sent when each response began to sound

    def send(self, text: str) -> None:
        super().send(text)
        if self.events[-1]["type"] == "output_audio_buffer.started":
            self.marks.append(len(self.packets) - 1)

    async def _play(self) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                clock = self.track.clock
                if clock and clock.sent and clock.waiting < RATE // 2 and self.session.speaking.active:
                    await asyncio.sleep(0.001)  # a clock that runs as fast as sound is made, so that it never runs dry
                    continue
                self.packets.append(bytes(await self.track.recv()))
                await asyncio.sleep(0)


@pytest.mark.slow
async def test_sound_comes_back_and_the_history_is_what_was_heard() -> None:
    info, model = registry.load(ROOT / "models", "lark")
    engine = Engine(Worker(model, slots=4), info)
    engine.start()
    transport, replier, rng = InProcess(engine, info), Talkative(), random.Random(1)
    played: list[float] = []
    async with Listening(transport, replier) as stage:
        for number in range(TIMES):
            said(stage)
            await stage.event("output_audio_buffer.started", number + 1)
            seconds = rng.uniform(0.3, 7.0)
            await until(lambda seconds=seconds: not (clock := stage.track.clock) or clock.played > seconds)
        said(stage)
        await stage.event("output_audio_buffer.started", TIMES + 1)
        stage.do("output_audio_buffer.clear")
        await stage.event("voxrtc.playout", TIMES + 1)
        played = [event["played_ms"] / 1000 for event in stage.all("voxrtc.playout")[:TIMES]]
    engine.stop()
    assert not stage.errors
    history = [message.content for message in replier.asked[-1] if isinstance(message, Said) and message.role == "assistant"]
    assert len(history) == TIMES, "each reply was heard in part"
    streams = [request.stream for request in transport.requests if isinstance(request, Generate)]
    off: list[int] = []
    for number in range(TIMES):
        reply, kept = REPLIES[number % len(REPLIES)], history[number]
        assert reply.startswith(kept) and (not kept or reply[len(kept) :][:1] in ("", " ")), "whole words"
        told = [event["characters"] for event in stage.all("voxrtc.heard") if event["response_id"] == streams[number]]
        assert told == sorted(told) and told[-1] == len(kept)
        words = transport.spoken[streams[number]]
        surely = max((end for _, until_, end in words if until_ <= played[number]), default=0)
        perhaps = max((end for begin, _, end in words if begin < played[number]), default=0)
        assert surely <= len(kept) <= perhaps
        begin = stage.marks[number]
        sound = decode(stage.packets[max(0, begin - 5) : begin + round(played[number] * 50)])
        off.append(heard_words(sound, reply) - len(kept.split()))
    print(f"{TIMES} interruptions; the ear heard {off} words more than the history has")
    assert sum(abs(words) <= 1 for words in off) >= 0.95 * TIMES, "an ear may guess how a word goes on"


def heard_words(sound: np.ndarray, reply: str) -> int:
    """How many words of the reply an ear hears: the beginning of it that differs least from what it writes down."""
    padded = np.append(sound, np.zeros(RATE // 2, np.int16)).astype(np.float32) / 32768
    heard, spoken = plain(transcribe(soxr.resample(padded, RATE, EAR))), reply.split()
    ways = [plain(" ".join(spoken[:count])) for count in range(len(spoken) + 1)]
    return min(range(len(ways)), key=lambda count: distance(ways[count], heard))


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", text.lower())


def distance(a: str, b: str) -> int:
    """Edits of letters."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
