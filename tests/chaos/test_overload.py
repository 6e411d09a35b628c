"""Three times as many as can be served come, for minutes: who is let in is served well, and who is not is told so at once.

`VOXRTC_CHAOS_MINUTES=5` for the README's figures.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests import census
from tests.chaos.conftest import MINUTES
from tests.chaos.people import Person
from tests.chaos.visits import OVER, Visit, come
from tests.program import Running, running
from tests.rtc.browser import SDP
from tests.waiting import eventually
from voxrtc.bench.workload import requests
from voxrtc.recent import quantile

TIMES = 3.0  # as many as can be served
FULL, SETTLED, LONG_ENOUGH = 30.0, 10.0, 30.0  # a second that are surely too many; seconds of that before it counts, and in all
PEOPLE = 2  # in calls, who break in on what they hear
KNOCKS = 2.0  # a second, of people who call though all places are taken
FIRST = -10  # niceness of who listens: they have machines of their own, and are on this one only to measure


@dataclass
class Evening:
    """All that came of it."""

    visits: list[Visit] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    knocks: list[tuple[float, httpx.Response]] = field(default_factory=list)  # seconds until answered
    looks: list[dict[str, float]] = field(default_factory=list)  # at `/metrics`


def capacity(port: int) -> float:
    """Visits a second that are served while there is always somebody waiting."""
    come_ = requests(FULL, round(FULL * LONG_ENOUGH), seed=1)
    visits = asyncio.run(come(port, come_))
    began = visits[0].planned - come_[0].at
    ended = [visit.player.ends for visit in visits if visit.end == OVER]
    return sum(began + SETTLED <= at < began + LONG_ENOUGH for at in ended) / (LONG_ENOUGH - SETTLED)


async def evening(server: Running, rate: float, seconds: float) -> Evening:
    found, port = Evening(), server.base_url.port or 80
    found.people = [Person() for _ in range(PEOPLE)]
    async with httpx.AsyncClient(base_url=server.base_url, timeout=60) as http:
        for person in found.people:
            await person.call(http)
        until = time.monotonic() + seconds
        beside = [
            *(asyncio.create_task(person.converse(until, seed)) for seed, person in enumerate(found.people)),
            asyncio.create_task(_knock(http, found, until)),
            asyncio.create_task(_look(http, found, until)),
        ]
        found.visits = await come(port, requests(rate, round(rate * seconds), seed=0))
        await asyncio.gather(*beside)
        for person in found.people:
            await person.close()
    return found


async def _knock(http: httpx.AsyncClient, found: Evening, until: float) -> None:
    """Offers of those for whom there is no place."""
    browser = Person()
    offer = await browser.offer()
    while (began := time.monotonic()) < until:
        answer = await http.post("/v1/realtime/calls", content=offer, headers=SDP)
        found.knocks.append((time.monotonic() - began, answer))
        await asyncio.sleep(1 / KNOCKS)
    await browser.close()


async def _look(http: httpx.AsyncClient, found: Evening, until: float) -> None:
    while time.monotonic() < until:
        found.looks.append(dict(census.parsed((await http.get("/metrics")).text)))
        await asyncio.sleep(1.0)


def ms(seconds: Sequence[float]) -> str:
    p50, p95, p99 = (1000 * quantile(seconds, q) for q in (0.5, 0.95, 0.99))
    return f"p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f} ms, most {1000 * max(seconds, default=math.nan):.0f} ms"


def test_three_times_too_many_come(tmp_path: Path) -> None:
    with running(tmp_path / "log.txt", VOXRTC_MAX_PEERS=str(PEOPLE)) as server:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        if os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, 0, FIRST)
        try:
            rate = TIMES * capacity(server.base_url.port or 80)
            eventually(lambda: census.idle(server))
            found = asyncio.run(evening(server, rate, 60 * MINUTES))
        finally:
            os.setpriority(os.PRIO_PROCESS, 0, before)
        eventually(lambda: census.idle(server))
    visits = found.visits
    admitted, refused = [v for v in visits if v.admitted], [v for v in visits if v.refused]
    refusals, knocks = [v.answered - v.came for v in refused], [seconds for seconds, _ in found.knocks]
    viable, behind = (sum(v.viable for v in admitted), sum(v.viable_behind(0.05) for v in admitted))
    underruns, sentences = (sum(p.underruns for p in found.people), sum(p.counts["voxrtc.playout"] for p in found.people))
    gaps, told = [stall.length for v in admitted for stall in v.player.stalls], [c for p in found.people for c in p.refusals]
    print(f"\n{rate / TIMES:.1f} a second can be served; {rate:.1f} came, {MINUTES:g} minutes: {len(visits)}")
    print(f"let in: {len(admitted)}; never dry {viable / len(admitted):.2%}, by 50 ms {behind / len(admitted):.2%}")
    print(f"  gaps: {len(gaps)}, {ms(gaps)}; first sound, with the wait: {ms([v.ttfa for v in admitted])}")
    print(f"refused: {len(refused)}; {ms(refusals)}; offers beyond the places: {len(knocks)}; {ms(knocks)}")
    print(f"who came was late by {ms([v.came - v.planned for v in visits])}")
    print(f"people in calls: {sentences} sentences, ran dry {underruns} times, refused {len(told)}")
    for name in ("voxrtc_streams_active", "voxrtc_streams_waiting", "voxrtc_caution_ratio"):
        seen = [look[name] for look in found.looks]
        print(f"{name}: median {quantile(seen, 0.5):g}, most {max(seen):g}")
    assert len(admitted) + len(refused) == len(visits), Counter((v.status, v.code, v.end) for v in visits)
    assert all(visit.end == OVER for visit in admitted), Counter(visit.end for visit in admitted)
    assert all(answer.status_code == 503 and answer.headers["retry-after"] for _, answer in found.knocks)
    assert all(look["voxrtc_streams_waiting"] <= 64 + PEOPLE for look in found.looks), "the queue is bounded"
    assert viable >= 0.99 * len(admitted)
    assert quantile(refusals, 0.95) <= 0.05
    assert quantile(knocks, 0.95) <= 0.05
    assert set(told) <= {"busy"}
