"""A thousand times somebody comes, hears the beginning of a sentence and goes, in every way there is; and nothing is left.

`VOXRTC_CHAOS_CYCLES=1000` for the README's figures. Caches, histories and what waits to be collected as garbage fill before.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import httpx

from tests import census
from tests.chaos.manners import MANNERS, Caller
from tests.program import Running, running
from tests.waiting import eventually

CYCLES = int(os.environ.get("VOXRTC_CHAOS_CYCLES", "200"))
FILLING = max(1000, CYCLES)  # before; how much memory is kept for reuse settles slowly
AT_A_TIME = 6
WITHIN = 60.0  # seconds that one of them may take
LEFT = 120.0  # seconds in which nothing is left: a session is kept for 30
MORE = 0.02  # of memory
SPARE = 1  # threads and files: a pool's, an idle connection's


async def cycles(url: str, first: int, count: int) -> Counter[str]:
    """So many, some at a time, each in the next manner. How often each was."""
    numbers, done = iter(range(first, first + count)), Counter[str]()
    async with httpx.AsyncClient(base_url=url, timeout=WITHIN) as http:

        async def one_after_another() -> None:
            for number in numbers:
                manner = MANNERS[number % len(MANNERS)]
                try:
                    await asyncio.wait_for(manner(Caller(http, random.Random(number))), WITHIN)
                except TimeoutError as late:
                    raise AssertionError(f"{manner.__name__}, number {number}, did not come to its end") from late
                done[manner.__name__] += 1

        await asyncio.gather(*(one_after_another() for _ in range(AT_A_TIME)))
    return done


def left(server: Running) -> tuple[dict[str, census.Held], dict[str, float]]:
    """What is held once nobody is there."""
    eventually(lambda: census.idle(server), LEFT)
    time.sleep(2.0)  # threads that end
    return census.everybody(server.pid), census.metrics(server)


def grown(before: int, after: int) -> float:
    return after / before - 1


def test_they_come_and_go_and_nothing_is_left(tmp_path: Path) -> None:
    with running(tmp_path / "log.txt", VOXRTC_CHAT_LOCAL="smollm2-135m") as server:
        url = str(server.base_url)
        eventually(lambda: server.get("/v1/voxrtc/replies").json()["state"] == "ready", LEFT)
        asyncio.run(cycles(url, 0, FILLING))
        before, told = left(server)
        began = time.monotonic()
        done = asyncio.run(cycles(url, FILLING, CYCLES))
        took = time.monotonic() - began
        after, tells = left(server)
        said = (tmp_path / "log.txt").read_text()
    print(f"\n{sum(done.values())} cycles in {took:.0f} s, after {FILLING}: {dict(done)}")
    for name, was in before.items():
        now = after[name]
        print(
            f"{name}: RSS {was.rss / 1000:.1f} -> {now.rss / 1000:.1f} MB ({grown(was.rss, now.rss):+.1%}), of its own "
            f"{was.own / 1000:.1f} -> {now.own / 1000:.1f} ({grown(was.own, now.own):+.1%}), threads {was.threads} -> "
            f"{now.threads}, files {was.files} -> {now.files}"
        )
    tasks = {name: (told[name], tells[name]) for name in ("voxrtc_media_tasks", "voxrtc_web_tasks")}
    print(f"tasks {tasks}; pages {tells['voxrtc_kv_pages_used']:g}")
    assert before.keys() == after.keys() and not tells.get("voxrtc_process_restarts_total")
    assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:3000]
    for name, was in before.items():
        now = after[name]
        assert grown(was.rss, now.rss) <= MORE, (name, was, now)
        assert now.threads <= was.threads + SPARE and now.files <= was.files + SPARE, (name, was, now)
    for name, (was_, now_) in tasks.items():
        assert now_ <= was_ + SPARE, (name, was_, now_)
