"""How long something took, of late and ever since, and the percentiles that all figures have in common."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

WINDOW = 60.0  # seconds that count
MOST = 512  # of these, the latest


def quantile(values: Iterable[float], q: float) -> float:
    """The smallest of `values` that at least a share of `q` does not exceed; infinite for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else math.inf


class Latency(msgspec.Struct, frozen=True):
    """Of `count` times within the last minute; there are no percentiles of none."""

    count: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None

    def __add__(self, other: Latency) -> Latency:
        """Of both, about: the middle of the middles, by how many each stands for, and of the slow the slower."""
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        middle = (self.count * (self.p50_ms or 0) + other.count * (other.p50_ms or 0)) / count
        return Latency(count, round(middle, 1), max(self.p95_ms or 0, other.p95_ms or 0))


class Recent:
    """The times of the last `WINDOW`, at most `MOST` of them, so that it costs the same whatever happens."""

    def __init__(self) -> None:
        self._times: deque[tuple[float, float]] = deque(maxlen=MOST)  # when, and how long

    def observe(self, now: float, seconds: float) -> None:
        """It took so long, as is known `now`."""
        self._times.append((now, seconds))

    def latency(self, now: float) -> Latency:
        """As of `now`."""
        times = [seconds for when, seconds in self._times if now - when <= WINDOW]
        if not times:
            return Latency()
        return Latency(len(times), round(1000 * quantile(times, 0.5), 1), round(1000 * quantile(times, 0.95), 1))


# Seconds, as bounds of a histogram: of what a person waits for, and of a step of a model
WAITS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
STEPS = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5, 1.0)


class Histogram(msgspec.Struct, frozen=True):
    """How many times were at most each of `bounds` seconds and more than the one before; the last of `counts`: beyond all of
    them. `seconds` is their sum."""

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    seconds: float = 0.0

    def __add__(self, other: Histogram) -> Histogram:
        """Both, of the same bounds; one without any is nothing."""
        if not (self.bounds and other.bounds):
            return self if self.bounds else other
        assert self.bounds == other.bounds
        counts = tuple(mine + its for mine, its in zip(self.counts, other.counts, strict=True))
        return Histogram(self.bounds, counts, self.seconds + other.seconds)


class Durations:
    """Times since the beginning, as a histogram."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self._seconds = tuple(bounds), [0] * (len(bounds) + 1), 0.0

    def observe(self, seconds: float) -> None:
        """It took so long."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._seconds += seconds

    @property
    def histogram(self) -> Histogram:
        return Histogram(self._bounds, tuple(self._counts), self._seconds)
