"""How fast something may come. Pure: the time is given."""

from __future__ import annotations

import math


class Pace:
    """Keeps account of what came, against `rate` of it a second. Nobody can save up by being slow."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._paid = -math.inf  # until when, at that rate

    def ahead(self, now: float, more: float = 0.0) -> float:
        """Seconds by which what came is too early at that rate, and `more` would be."""
        return max(self._paid, now) + more / self._rate - now

    def count(self, amount: float, now: float) -> None:
        """So much came."""
        self._paid = max(self._paid, now) + amount / self._rate
