"""How long something took of late."""

from __future__ import annotations

from collections import deque

import msgspec

WINDOW = 60.0  # seconds that count
MOST = 512  # of these, the latest


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
        times = sorted(seconds for when, seconds in self._times if now - when <= WINDOW)
        if not times:
            return Latency()
        p50, p95 = (1000 * times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.95))
        return Latency(len(times), round(p50, 1), round(p95, 1))
