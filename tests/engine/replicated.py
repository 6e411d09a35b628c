"""Several engines without a model, as a server has them: what the tests of replicas stand on."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fake_engine import ToneTransport
from tests.waiting import PATIENCE, until
from voxrtc.engine import replicas as replicas_module
from voxrtc.engine.client import Transport
from voxrtc.engine.replicas import Replicas
from voxrtc.messages.engine import (
    EngineReply,
    Generate,
    GetStats,
)
from voxrtc.messages.model import GetModels, Progress

numbers = itertools.count()


class Unfit(ToneTransport):
    """There is no room for it."""

    def find(self) -> None:
        self.on_reply(Progress(state="failed", message="CUDA out of memory"))


class ToneHost:
    """Runs tones; one whose name is `missing` finds no place, and says so; one that is `unfit` cannot be loaded."""

    def __init__(self) -> None:
        self.found: dict[str, ToneTransport] = {}
        self.stopped: list[str] = []
        self.missing: set[str] = set()
        self.waiting: list[str] = []
        self.unfit: set[str] = set()

    async def find(self, name: str, tell: Callable[[str], None]) -> Transport:
        if name in self.missing:
            self.waiting.append(name)
            tell("waiting for a machine")
            await asyncio.Event().wait()
        self.found[name] = transport = Unfit() if name in self.unfit else ToneTransport(speed=200.0)
        return transport

    async def stop(self, name: str) -> None:
        self.stopped.append(name)

    async def close(self) -> None: ...


@dataclass
class Listener:
    """What came of one stream."""

    name: str
    replies: list[EngineReply] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, reply: EngineReply) -> None:
        self.replies.append(reply)
        self.changed.set()

    async def until(self, kind: type[EngineReply]) -> EngineReply:
        while not (found := [reply for reply in self.replies if isinstance(reply, kind)]):
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), PATIENCE)
        return found[0]


class Clock:
    """The time, which passes at a word."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


@dataclass
class House:
    """Replicas over tones, as the server has them."""

    host: ToneHost
    replicas: Replicas
    told: list[Progress]
    opened: list[str]
    clock: Clock

    def say(self, text: str = "one two three", **more: Any) -> Listener:
        listener = Listener(f"stream-{next(numbers)}")
        request = Generate(stream=listener.name, text=text, accepted=time.monotonic(), **more)
        self.replicas.submit(request, listener)
        return listener

    async def asked(self, question: GetStats | GetModels, kind: type[EngineReply]) -> EngineReply:
        listener = Listener("")
        self.replicas.submit(question, listener)
        return await listener.until(kind)

    async def looks(self, times: int = 1) -> None:
        """Until they have looked so often at each that is there."""
        seen, each = [len(self.questions(name)) for name in self.host.found], list(self.host.found)
        await until(lambda: any(len(self.questions(n)) >= k + times for n, k in zip(each, seen, strict=True)), every=0)

    def questions(self, name: str) -> list[GetStats]:
        """How it is, as a replica was asked."""
        return [request for request in self.host.found[name].requests if isinstance(request, GetStats)]

    async def passes(self, seconds: float) -> None:
        """Time, with looks in between."""
        for _ in range(round(2 * seconds)):
            self.clock.now += 0.5
            await self.looks()

    def speaker(self, listener: Listener) -> str:
        """Which replica was asked last for a stream."""
        return next(
            name
            for name, transport in reversed(self.host.found.items())
            if any(isinstance(r, Generate) and r.stream == listener.name for r in transport.requests)
        )


@asynccontextmanager
async def housed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """Two of them, looked at without a pause."""
    monkeypatch.setattr(replicas_module, "LOOK_EVERY", 0.01)
    host, told, opened, clock = ToneHost(), list[Progress](), list[str](), Clock()
    replicas = Replicas(host, 2, told.append, lambda _, info: opened.append(info.name), clock)
    made = House(host, replicas, told, opened, clock)
    await until(lambda: len(host.found) == 2)
    yield made
    await replicas.close()
