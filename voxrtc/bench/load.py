"""Open-loop load on an engine over its socket: listeners come when they come, however busy it is. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from voxrtc.bench.player import Player
from voxrtc.bench.search import LATE, STALLED, TTFA_BUDGET
from voxrtc.bench.workload import Request
from voxrtc.engine.client import EngineClient, EngineLost, StreamFailed
from voxrtc.messages.engine import Generate, Playout, Queued

PATIENCE = 60.0  # seconds after the last arrival, after which what is not served counts as unserved
WATCH = 0.05  # seconds between looks at whether a run can still pass

_numbers = itertools.count()


@dataclass
class Hearing:
    """What one listener heard, and when."""

    scheduled: float  # when its request arrives, by plan
    player: Player = field(default_factory=Player)
    arrivals: list[tuple[float, float]] = field(default_factory=list)  # of chunks, with their seconds of sound
    ended: float | None = None  # when the engine said that it was over
    failure: str = ""  # `Failed.code`

    @property
    def done(self) -> bool:
        """All of it was heard."""
        return self.ended is not None and not self.failure

    @property
    def ttfa(self) -> float | None:
        """Seconds from the planned arrival to the first sound."""
        return self.arrivals[0][0] - self.scheduled if self.arrivals else None

    def late(self, now: float) -> bool:
        """Its first sound came after the budget, or has not come and the budget is spent."""
        waited = now - self.scheduled if self.ttfa is None else self.ttfa
        return waited > TTFA_BUDGET

    def hear(self, now: float, seconds: float) -> None:
        """A chunk arrives."""
        self.arrivals.append((now, seconds))
        self.player.push(now, seconds)


def hopeless(hearings: Sequence[Hearing], now: float) -> bool:
    """Whether goodput's terms cannot be met any more, whatever follows. Judged on all that are planned."""
    late, stalled = sum(h.late(now) for h in hearings), sum(h.player.stalled for h in hearings)
    return late > LATE * len(hearings) or stalled > STALLED * len(hearings) or any(h.failure for h in hearings)


def passed(hearings: Sequence[Hearing]) -> bool:
    """Everyone was served, and goodput's terms are met."""
    return all(h.done for h in hearings) and not hopeless(hearings, 0.0)


GiveUp = Callable[[Sequence[Hearing], float], bool]


def never(hearings: Sequence[Hearing], now: float) -> bool:
    """For runs that go to their end."""
    return False


async def listen(client: EngineClient, requests: Sequence[Request], give_up: GiveUp = never) -> list[Hearing]:
    """Send all requests, each at its time, and hear them to their end, or until `give_up`; then the engine is at rest."""
    started = time.monotonic()
    hearings = [Hearing(started + request.at) for request in requests]
    everyone = asyncio.gather(*(_hear(client, r.text, h) for r, h in zip(requests, hearings, strict=True)))
    until = started + requests[-1].at + PATIENCE
    while not everyone.done():
        await asyncio.wait([everyone], timeout=WATCH)
        if give_up(hearings, time.monotonic()) or time.monotonic() > until:
            everyone.cancel()
            break
    await asyncio.gather(everyone, return_exceptions=True)
    await rest(client)
    return hearings


async def rest(client: EngineClient) -> None:
    """Until the engine has no stream any more."""
    while True:
        with contextlib.suppress(EngineLost):
            if not (await client.stats()).streams:
                return
        await asyncio.sleep(WATCH)


async def _hear(client: EngineClient, text: str, hearing: Hearing) -> None:
    await asyncio.sleep(hearing.scheduled - time.monotonic())
    stream = f"listener {next(_numbers)}"
    try:
        async for chunk in client.generate(Generate(stream=stream, text=text, accepted=hearing.scheduled)):
            if isinstance(chunk, Queued):
                continue
            now = time.monotonic()
            hearing.hear(now, len(chunk.pcm) / 2 / chunk.sample_rate)
            client.report(Playout(stream=stream, played=hearing.player.played(now), at=now, running=True))
    except StreamFailed as failed:
        hearing.failure = failed.code
    hearing.ended = time.monotonic()
