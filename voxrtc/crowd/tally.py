"""What became of the streams of a crowd since its policy was chosen, or its size: the figures that policies are compared by."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from voxrtc.recent import quantile

KEPT = 1000  # latest times to first audio


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """As they are told. Times in seconds, None before the first."""

    listeners: int
    seconds: float  # for how long it was counted
    started: int  # streams that got sound
    dry: int  # of these, those whose sound ran dry
    p50_ttfa: float | None
    p90_ttfa: float | None
    refused: int
    gave_way: int  # turned away for somebody who listens


@dataclass
class Tally:
    """Counts streams that were asked for while it was `open`."""

    listeners: int
    since: float
    until: float | None = None
    started: int = 0
    dry: int = 0
    refused: int = 0
    gave_way: int = 0
    _ttfa: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def open(self) -> bool:
        return self.until is None

    def close(self, now: float) -> None:
        """What comes of its streams from now on is not its doing alone."""
        self.until = self.until or now

    def first_sound(self, ttfa: float) -> None:
        if self.open:
            self.started += 1
            self._ttfa.append(ttfa)

    def ran_dry(self) -> None:
        """A stream, for the first time."""
        if self.open:
            self.dry += 1

    def turned_away(self, code: str) -> None:
        """`code` as in `Failed`."""
        if self.open:
            self.refused += code == "busy"
            self.gave_way += code == "gave_way"

    def figures(self, now: float) -> Figures:
        return Figures(
            listeners=self.listeners,
            seconds=round((self.until or now) - self.since, 1),
            started=self.started,
            dry=self.dry,
            p50_ttfa=self._waited(0.5),
            p90_ttfa=self._waited(0.9),
            refused=self.refused,
            gave_way=self.gave_way,
        )

    def _waited(self, q: float) -> float | None:
        """At least a share of `q` of the latest streams waited no longer for their first sound."""
        return round(quantile(self._ttfa, q), 3) if self._ttfa else None
