"""Open-loop load on an engine over its socket: listeners come when they come, however busy it is. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Sequence

from voxrtc.bench.search import LATE, STALLED, TTFA_BUDGET
from voxrtc.bench.workload import Request
from voxrtc.crowd.hearing import Hearing, hear
from voxrtc.engine.client import EngineClient, EngineLost
from voxrtc.messages.engine import Generate

PATIENCE = 60.0  # seconds after the last arrival, after which what is not served counts as unserved
WATCH = 0.05  # seconds between looks at whether a run can still pass

_numbers = itertools.count()


def late(hearing: Hearing, now: float) -> bool:
    """Its first sound came after the budget, or has not come and the budget is spent."""
    waited = now - hearing.scheduled if hearing.ttfa is None else hearing.ttfa
    return waited > TTFA_BUDGET


def hopeless(hearings: Sequence[Hearing], now: float) -> bool:
    """Whether goodput's terms cannot be met any more, whatever follows. Judged on all that are planned."""
    slow, stalled = sum(late(h, now) for h in hearings), sum(h.player.stalled for h in hearings)
    return slow > LATE * len(hearings) or stalled > STALLED * len(hearings) or any(h.failure for h in hearings)


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
    await hear(client, Generate(stream=stream, text=text, accepted=hearing.scheduled), hearing)
