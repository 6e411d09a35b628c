"""Goodput: its terms, and the search for the highest rate that meets them. Simulated and measured goodput share both."""

from __future__ import annotations

import math
from dataclasses import dataclass

TTFA_BUDGET = 0.5  # seconds
LATE, STALLED = 0.1, 0.01  # shares of streams that may wait longer for their first sound, and that may run dry


@dataclass
class Search:
    """Where to try next: wider and wider steps from a hint until one rate passes and one fails, then halving on a log scale.

    Ask for `rate`, say with `tell` whether it passed, until `done`. `good` is the highest that passed.
    """

    rate: float
    precision: float = 1.06
    lowest: float = 0.03
    highest: float = 200.0
    good: float = 0.0
    bad: float = math.inf
    step: float = 1.25

    @property
    def done(self) -> bool:
        """The knee is known well enough, or lies outside what is of interest."""
        return self.bad <= self.lowest or self.good >= self.highest or self.bad <= self.good * self.precision

    def tell(self, passed: bool) -> None:
        """Take the outcome at `rate`, and move it on."""
        assert not self.done, "the search is over"
        self.good, self.bad = (self.rate, self.bad) if passed else (self.good, self.rate)
        if self.good and self.bad < math.inf:
            self.rate = math.sqrt(self.good * self.bad)
        else:
            self.rate = min(self.highest, self.rate * self.step) if passed else max(self.lowest, self.rate / self.step)
            self.step **= 1.5
