"""A listener's player, simulated: what it would have played of sound that came in chunks, and when it ran dry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Stall:
    """Silence between two samples of a stream: from the moment the player ran dry, in seconds."""

    start: float
    length: float


@dataclass
class Player:
    """Starts `delay` seconds after the first chunk arrives, and plays without a break as long as there is any sound."""

    delay: float = 0.0
    sound: float = 0.0  # seconds received
    chunks: int = 0
    ends: float = 0.0  # when the sound at hand will have been played
    stalls: list[Stall] = field(default_factory=list)

    @property
    def stalled(self) -> bool:
        """It ran dry before its last sample."""
        return bool(self.stalls)

    def push(self, at: float, seconds: float) -> None:
        """A chunk arrives. Times never go back."""
        if self.chunks == 0:
            self.ends = at + self.delay
        elif at > self.ends:
            self.stalls.append(Stall(self.ends, at - self.ends))
        self.ends = max(at, self.ends) + seconds
        self.sound, self.chunks = self.sound + seconds, self.chunks + 1

    def played(self, now: float) -> float:
        """Seconds played by `now`."""
        return max(0.0, self.sound - max(0.0, self.ends - now))


def replay(arrivals: Iterable[tuple[float, float]], delay: float) -> Player:
    """A player that was given chunks (when, seconds)."""
    player = Player(delay)
    for at, seconds in arrivals:
        player.push(at, seconds)
    return player


def on_time(arrivals: Sequence[tuple[float, float]]) -> int:
    """Chunks after the first that came before the sound sent so far was over, had it been played at once and in one go.

    This is the VoxServe paper's viability (arXiv 2602.00269): who is late once is late until it has caught up.
    """
    due, count = arrivals[0][0], 0
    for (_, seconds), (at, _) in pairwise(arrivals):
        due += seconds
        count += at <= due
    return count
