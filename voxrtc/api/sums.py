"""Counts that go on when who counts begins anew. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from voxrtc.recent import Histogram


class Sums:
    """What processes have counted, each by a name of its own. One that is restarted counts from 0, which here goes on top; what
    it counted after it was last asked is lost with it."""

    def __init__(self) -> None:
        self._before: dict[str, Counter[str]] = {}  # by those that are gone
        self._latest: dict[str, dict[str, float]] = {}

    def note(self, who: str, counted: Mapping[str, float]) -> None:
        """As of now. Where anything is less than before, it is another process that counts."""
        latest = self._latest.get(who, {})
        if any(counted.get(name, 0) < value for name, value in latest.items()):
            self._before.setdefault(who, Counter()).update(latest)
        self._latest[who] = dict(counted)

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        """All who ever counted, and what it comes to."""
        for who, latest in self._latest.items():
            before: Mapping[str, float] = self._before.get(who, {})
            yield who, {name: before.get(name, 0) + latest.get(name, 0) for name in {**before, **latest}}


def flat(name: str, times: Histogram) -> dict[str, float]:
    """A histogram's numbers as counts: `name <=0.05`, …, and `name sum`."""
    bounds = [*map(repr, times.bounds), "+Inf"]
    return {f"{name} <={bound}": count for bound, count in zip(bounds, times.counts, strict=False)} | {
        f"{name} sum": times.seconds
    }


def buckets(name: str, counted: Mapping[str, float]) -> tuple[list[tuple[str, float]], float]:
    """`flat`'s way back, as Prometheus wants it: for each bound how many were at most so long, and the sum of all."""
    found, total = [], 0.0
    for key, count in counted.items():
        if key.startswith(f"{name} <="):
            total += count
            found.append((key.partition("<=")[2], total))
    return found, counted.get(f"{name} sum", 0.0)
