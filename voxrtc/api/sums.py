"""Counts that go on when who counts begins anew. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from voxrtc.recent import Histogram


class Sums:
    """What processes have counted, by what it is about. A process that is restarted counts from 0, which here goes on top; what
    it counted after it was last asked is lost with it."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], Counter[str]] = {}  # by those that are gone
        self._latest: dict[tuple[str, str], dict[str, float]] = {}

    def note(self, what: str, counted: Mapping[str, float], process: str = "") -> None:
        """As of now. Where anything is less than before, it is another process that counts. Where several count the same, each
        has a name."""
        latest = self._latest.get((what, process), {})
        if any(counted.get(name, 0) < value for name, value in latest.items()):
            self._before.setdefault((what, process), Counter()).update(latest)
        self._latest[what, process] = dict(counted)

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        """All that was ever counted, and what it comes to."""
        sums: dict[str, Counter[str]] = {}
        for key, latest in self._latest.items():
            for counted in (self._before.get(key, {}), latest):
                sums.setdefault(key[0], Counter()).update(counted)
        yield from sums.items()


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
