"""How much a client may say. Pure: its clock is given."""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """`rate` things a second on average, and `burst` seconds' worth of them at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._each, self._burst, self._clock = 1 / rate, burst, clock
        self._paid = clock()  # until when, at that rate

    def take(self) -> bool:
        """One more; False when that is too many."""
        now = self._clock()
        paid = max(self._paid, now) + self._each
        if paid - now > self._burst:
            return False
        self._paid = paid
        return True
