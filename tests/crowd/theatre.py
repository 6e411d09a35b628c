"""A stage for crowds: an engine that speaks as fast as a test wants, in a time that passes when the test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator

from tests.fake_engine import TONE_MODEL
from voxrtc.engine.client import StreamFailed
from voxrtc.messages.engine import Chunk, Generate, Playout, PolicyName, Queued
from voxrtc.messages.model import ModelInfo

RATE, CHUNK = 1000, 0.2  # Hz; seconds of sound in a chunk
PACE = 14  # characters a second


class Time:
    """`now` stands still but for `passes`."""

    def __init__(self) -> None:
        self.now = 100.0
        self._order = itertools.count()
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleeping, (self.now + max(0.0, seconds), next(self._order), woken))
        await woken

    async def passes(self, seconds: float) -> None:
        """Everybody who sleeps until then wakes, each at its time."""
        until = self.now + seconds
        await settle()
        while self._sleeping and self._sleeping[0][0] <= until:
            self.now, _, woken = heapq.heappop(self._sleeping)
            if not woken.done():
                woken.set_result(None)
                await settle()
        self.now = until


async def settle() -> None:
    """Until nobody has anything to do but sleep."""
    for _ in range(12):
        await asyncio.sleep(0)


class Theatre:
    """The engines of a crowd. `speed`: seconds of sound a second, for each stream; `failure` is that of new streams."""

    def __init__(self, time: Time, speed: float = 4.0) -> None:
        self.time, self.speed, self.failure, self.queue = time, speed, "", 0.0
        self.known: list[ModelInfo] = [TONE_MODEL]
        self.policies: list[PolicyName] = []
        self.requests: list[Generate] = []
        self.live: set[str] = set()
        self.clocks: dict[str, list[Playout]] = {}
        self.broken: set[str] = set()  # streams that end in `failure` amid their sound

    def plan_by(self, policy: PolicyName) -> None:
        self.policies.append(policy)

    def report(self, playout: Playout) -> None:
        self.clocks.setdefault(playout.stream, []).append(playout)

    async def generate(self, request: Generate) -> AsyncGenerator[Queued | Chunk, None]:
        self.requests.append(request)
        if self.failure:
            raise StreamFailed(self.failure, "A failure.", 2.0)
        self.live.add(request.stream)
        try:
            if self.queue:
                yield Queued(stream=request.stream, position=3, wait=self.queue)
                await self.time.sleep(self.queue)
            for index in range(max(1, round(len(request.text) / PACE / CHUNK))):
                await self.time.sleep(CHUNK / self.speed)
                if request.stream in self.broken:
                    raise StreamFailed("gave_way", "Somebody needed the place.")
                yield Chunk(stream=request.stream, index=index, pcm=bytes(2 * round(CHUNK * RATE)), sample_rate=RATE)
        finally:
            self.live.discard(request.stream)
