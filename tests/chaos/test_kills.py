"""kill -9, again and again, while people listen: whom it concerns is told, and nobody else hears of it. And at last SIGTERM."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.census import Held
from tests.chaos.beside import lengths
from tests.chaos.conftest import MINUTES
from tests.chaos.house import EVERY, House
from tests.chaos.kills import BACK_WITHIN, Kill, Killer
from tests.chaos.listeners import Caller, Download, Listener
from tests.chaos.streams import Stream
from tests.chaos.visitor import Visitor
from tests.program import Running, below, running, runs
from tests.waiting import answered, until

SEED = int(os.environ.get("VOXRTC_CHAOS_SEED", "1"))
WARM = 15.0  # seconds in which all listen and nothing is killed
TOLD_WITHIN = 15.0  # seconds after a kill, or after the question: who is lost knows, and has heard what was made
ENDED_WITHIN = 30.0  # seconds after SIGTERM
VIABLE = 0.999
LEAK = 1.1  # of the memory of a process that lives through it all: histories fill; `test_cycles` holds it closer
POOL = 4  # threads that a pool may still begin; what each kill leaves behind would be dozens
# What a kill may make of a stream; or words of the page
LOST = {"engine_lost", "model_loading", "cut", "call lost", "browser gone"}


@dataclass(frozen=True)
class Rest:
    """What there is when nobody listens."""

    looks: dict[str, list[Held]]
    stats: dict[str, Any]


class Crowd:
    """All who listen, from the first to the last: well under what two engines on two cores bear."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.downloads = [Download(http, seed, way) for seed, way in enumerate(("pcm", "sse", "pcm"))]
        self.callers = [Caller(http, seed) for seed in (10, 11)]
        self.all: list[Listener] = [*self.downloads, *self.callers, Visitor(http, 20)]
        self._living = [asyncio.create_task(each.live()) for each in self.all]

    async def there(self, house: House) -> int:
        """Until all calls are set up; how many."""
        calls = len(self.callers) + 1

        async def look() -> bool:
            stats = await house.stats()
            return stats is not None and stats["media"]["peers"] == calls

        await answered(look, within=BACK_WITHIN, every=EVERY)
        return calls

    async def leave(self) -> list[Stream]:
        """Once what they hear has ended; all their streams."""
        for each in self.all:
            each.stop()
        await asyncio.gather(*self._living)
        return [stream for each in self.all for stream in each.streams]


async def rest(house: House) -> Rest:
    stats = await house.idle()
    return Rest(house.looks(), stats)


@dataclass(frozen=True)
class Run:
    lengths: dict[str, float]  # seconds of each text
    streams: list[Stream]
    kills: list[Kill]
    before: Rest
    after: Rest


async def chaos(house: House, seconds: float) -> Run:
    known = await lengths(house.http)
    assert all(known.values())
    crowd = Crowd(house.http)
    await crowd.there(house)
    await asyncio.sleep(WARM)
    for stream in await crowd.leave():
        if not stream.viable(known):
            print(f"  not viable before any kill: {stream}")
    before = await rest(house)
    crowd = Crowd(house.http)
    killer = Killer(house, random.Random(SEED), await crowd.there(house))
    there = time.monotonic()  # before, a browser starts, which takes a core
    await killer.go_on(there + seconds)
    streams = [stream for stream in await crowd.leave() if stream.asked >= there]
    return Run(known, streams, killer.kills, before, await rest(house))


def judge(run: Run) -> None:
    """Prints the figures."""
    by_kills: dict[Stream, list[Kill]] = {stream: [k for k in run.kills if k.touches(stream)] for stream in run.streams}
    untouched = [stream for stream, kills in by_kills.items() if not kills]
    spoilt = [stream for stream in untouched if not stream.viable(run.lengths)]
    back: dict[str, list[float]] = {kill.kind: [k.back - k.at for k in run.kills if k.kind == kill.kind] for kill in run.kills}
    share = 1 - len(spoilt) / len(untouched)
    print(f"{len(run.streams)} streams, {len(untouched)} not touched by a kill, of these viable: {100 * share:.2f}%")
    print(f"told: {dict(Counter(stream.told for stream in run.streams if stream.told))}")
    for kind, seconds in back.items():
        print(f"{kind}: {len(seconds)} kills, back after {statistics.median(seconds):.1f} s (at most {max(seconds):.1f})")
    for stream in spoilt:
        before = [(kill.kind, round(stream.asked - kill.at, 1)) for kill in run.kills if kill.at < (stream.ended or 0)]
        print(f"SPOILT: {stream}, asked so many seconds after {before[-1:]}")
    for stream, kills in by_kills.items():
        if not kills or stream.whole(run.lengths):
            continue
        assert stream.told in LOST or stream.told.startswith("shown: "), stream
        lost = max(stream.asked, max(kill.at for kill in kills))
        assert stream.ended and stream.ended - lost < TOLD_WITHIN, stream
    assert share >= VIABLE


def leaks(before: Rest, after: Rest) -> None:
    """Nothing that was had for somebody is kept."""
    for role, looks in after.looks.items():
        print(
            f"{role}: {[(look.rss // 1000, look.threads, look.files) for look in before.looks[role]]} MB, threads, files -> "
            f"{[(look.rss // 1000, look.threads, look.files) for look in looks]}"
        )
    assert {role: len(looks) for role, looks in before.looks.items()} == {
        role: len(looks) for role, looks in after.looks.items()
    }
    for role, looks in after.looks.items():
        for then, now in zip(before.looks[role], looks, strict=True):
            assert now.threads <= then.threads + POOL and now.files <= then.files + 2, (role, then, now)
    assert after.looks["web"][0].rss <= LEAK * before.looks["web"][0].rss
    engine, media = after.stats["engines"]["lark"], after.stats["media"]
    assert engine["kv_pages_used"] <= before.stats["engines"]["lark"]["kv_pages_used"] and not engine["waiting"]
    assert media["tasks"] <= before.stats["media"]["tasks"] + 2 and not media["talking"]


async def ended(house: House, program: Running, known: dict[str, float]) -> None:
    """SIGTERM while all listen: nobody new is let in, what is being said is heard to its end, and nothing is left."""
    crowd = Crowd(house.http)
    await crowd.there(house)
    family = below(program.pid)
    asked = time.monotonic()
    program.process.terminate()

    async def refused() -> bool:
        return (await house.http.get("/readyz")).status_code == 503

    await answered(refused, within=5, every=EVERY)
    late = await Download(house.http, 0).hear()
    assert late.told == "shutting_down"
    await until(lambda: all(len(caller.farewells) > 1 for caller in crowd.callers), ENDED_WITHIN, EVERY)
    # A page that was still connecting is told as who comes later
    streams = [each for each in await crowd.leave() if each.asked < asked and (each.seconds or each.way != "page")]
    assert len(streams) >= len(crowd.all) - 1
    # What a page is told may be the farewell, which follows the last word
    assert not [stream for stream in streams if not replace(stream, told="").whole(known)]
    for caller in crowd.callers:
        assert [each["type"] for each in caller.farewells[:2]] == ["voxrtc.ending", "error"]
    assert await asyncio.to_thread(program.process.wait, ENDED_WITHIN) == 0
    print(f"ended {time.monotonic() - asked:.1f} s after SIGTERM")
    await until(lambda: not any(map(runs, family)), 5, EVERY)


async def everything(program: Running, seconds: float) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house = House(program.pid, http)
        await house.ready(BACK_WITHIN)
        run = await chaos(house, seconds)
        judge(run)
        leaks(run.before, run.after)
        alone = Download(http, 0)
        for text in run.lengths:
            assert (await alone.hear(text)).whole(run.lengths), "who comes now is spoken to as ever"
        await ended(house, program, run.lengths)


@pytest.mark.parametrize("workers", ["local", "ray"])
def test_others_hear_nothing_of_it(workers: str, tmp_path: Path) -> None:
    if workers == "ray":
        pytest.importorskip("ray")
    log, settings = tmp_path / "log.txt", {"VOXRTC_REPLICAS": "2", "VOXRTC_WORKERS": workers}
    if workers == "local":  # Ray's own sockets need short paths
        settings["TMPDIR"] = str(tmp_path)
    print(f"\n{workers}, seed {SEED}, {MINUTES / 2:g} minutes")
    with running(log, **settings) as program:
        asyncio.run(everything(program, 60 * MINUTES / 2))
    assert "Traceback" not in log.read_text()
    assert {each.name for each in tmp_path.iterdir()} <= {"log.txt", "gradio"}, "no file is left, but Gradio's"
