"""How much a client may say. Pure: its clock is given."""

from __future__ import annotations

from collections.abc import Callable

from voxrtc.pace import Pace


class Allowance:
    """`rate` things a second on average, and `burst` seconds' worth of them at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._pace, self._burst, self._clock = Pace(rate), burst, clock

    def take(self) -> bool:
        """One more; False when that is too many."""
        now = self._clock()
        if self._pace.ahead(now, 1) > self._burst:
            return False
        self._pace.count(1, now)
        return True
