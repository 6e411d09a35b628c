"""How much more than its costs say a machine has to be planned for, by the sound that listeners have in hand. No clock.

Costs are what work typically takes; what else a machine does they cannot know. But how much sound each listener has left is
known, so it shows at once when the engine's plans do not hold: chunks come later than they were to, before anybody runs dry.
Then fewer streams are let in, and new ones begin with more in hand, until that has not been seen for a while.
"""

from __future__ import annotations

import math

SHORT = 0.7  # of what was kept for a chunk: who had less in hand when it came was nearly dry
MORE = 0.7  # by how much it rises when nothing was left; in proportion when something was
EVERY = 0.5  # seconds within which many late ones count as one, since what holds up a step holds up all
FADES = 40.0  # seconds in which it falls by a factor e: some streams long
MOST = 4.0


class Caution:
    """1 while all goes as planned. Ask for it with `at`, and tell it of every chunk that is not a stream's first."""

    def __init__(self) -> None:
        self._factor, self._known, self._raised = 1.0, 0.0, -math.inf

    def at(self, now: float) -> float:
        """What to multiply costs by. `now` never goes back."""
        self._factor = 1 + (self._factor - 1) * math.exp((self._known - now) / FADES)
        self._known = now
        return self._factor

    def handed_over(self, now: float, slack: float, reserve: float) -> None:
        """A listener had `slack` seconds in hand when its chunk came, for which the plan had kept a `reserve`."""
        missing = 1 - slack / (SHORT * reserve) if reserve else 0.0
        if missing > 0 and now - self._raised >= EVERY:
            self._factor, self._raised = min(MOST, self.at(now) + MORE * missing), now
