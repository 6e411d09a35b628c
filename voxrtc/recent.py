"""How long something took of late, and the percentiles that all figures have in common."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

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
