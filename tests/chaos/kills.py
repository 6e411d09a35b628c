"""Kills, and whom each concerns."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.chaos.house import EVERY, House, chromium, kill
from tests.chaos.streams import Stream
from tests.program import below, runs
from tests.waiting import answered, until

Kind = Literal["replica", "engine", "media", "browser"]
BAG: list[Kind] = ["replica", "browser", "media", "replica", "engine", "replica", "browser"]  # drawn from until it is empty
BACK_WITHIN = 90.0  # seconds for what was killed to be there again
PAUSE = (2.0, 8.0)  # seconds between a recovery and the next kill
REPLICAS = {"replica-0", "replica-1"}
STALE = 1.0  # seconds by which stats may be late to tell of a stream


@dataclass(frozen=True)
class Kill:
    """`marks` are of the streams that a replica had, `elsewhere` those of the other's."""

    kind: Kind
    at: float
    back: float
    marks: frozenset[str] = field(default_factory=frozenset)
    elsewhere: frozenset[str] = field(default_factory=frozenset)

    def touches(self, stream: Stream) -> bool:
        """Whether a stream could not but be lost, or may have been: who was just coming may have come to either replica."""
        there = stream.open_at(self.at)
        there_or_coming = there or self.at < stream.asked < self.back
        match self.kind:
            case "replica":
                coming = stream.asked > self.at - STALE or stream.first is None or stream.first > self.at
                return there and (stream.mark in self.marks or (coming and stream.mark not in self.elsewhere))
            case "engine":
                return there_or_coming
            case "media":
                return there_or_coming and stream.way in ("peer", "page")
            case "browser":  # and who was about to ask in it
                return there_or_coming and stream.way == "page"


class Killer:
    """Kills one after another, each once the one before is made good, at moments and with victims by chance. There are so many
    `callers`, all connected at its beginning."""

    def __init__(self, house: House, rng: random.Random, callers: int) -> None:
        self.kills: list[Kill] = []
        self._house, self._rng, self._callers, self._bag = house, rng, callers, list[Kind]()

    async def go_on(self, until: float) -> None:
        while time.monotonic() < until:
            await asyncio.sleep(self._rng.uniform(*PAUSE))
            self._bag = self._bag or list(BAG)
            self.kills.append(done := await self._kill(self._bag.pop(0)))
            print(f"  {done.kind}: back after {done.back - done.at:.1f} s", flush=True)

    async def _kill(self, kind: Kind) -> Kill:
        before = await self._house.stats()
        assert before
        victims = chromium() if kind == "browser" else {self._rng.choice(self._house.processes()[kind])}
        assert victims
        orphans = {pid for victim in victims for pid in below(victim)}
        at = time.monotonic()
        kill(victims)
        marks: dict[str, frozenset[str]] = {}
        gone = ""
        if kind == "replica":
            marks, gone = _marks(before), await self._gone()
        await self._house.ready(BACK_WITHIN)
        if kind in ("media", "browser"):
            calls = before["media"]["calls"] if kind == "browser" else 0
            await answered(lambda: self._all_there(calls), within=BACK_WITHIN, every=EVERY)
        back = time.monotonic()
        # Ray's take a minute to see that their head is gone
        await until(lambda: not any(map(runs, orphans)), BACK_WITHIN, EVERY)
        elsewhere = frozenset().union(*(its for name, its in marks.items() if name != gone))
        return Kill(kind, at, back, marks.get(gone, frozenset()), elsewhere)

    async def _gone(self) -> str:
        """The replica that is missed."""

        async def missing() -> set[str]:
            stats = await self._house.stats()
            return REPLICAS - {each["name"] for each in stats["engines"]["lark"]["replicas"]} if stats else set()

        (name,) = await answered(missing, within=BACK_WITHIN, every=EVERY)
        return name

    async def _all_there(self, calls: int) -> bool:
        """All callers are connected, some of them anew, and nobody is taken to be who is not."""
        stats = await self._house.stats()
        return bool(stats and stats["media"]["peers"] == self._callers and stats["media"]["calls"] > calls)


def _marks(stats: dict[str, Any]) -> dict[str, frozenset[str]]:
    """Of streams, by replica."""
    streams = stats["engines"]["lark"]["streams"]
    return {name: frozenset(each["stream"] for each in streams if each["replica"] == name) for name in REPLICAS}
