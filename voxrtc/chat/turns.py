"""When the person begins and ends a turn, from how likely each block of sound is speech. Pure: time comes with the sound."""

from __future__ import annotations

from dataclasses import dataclass

ONSET = 0.096  # seconds that speech must last: a click or a bump is no turn, and interrupts nobody
HYSTERESIS = 0.15  # of probability: what is still speech, once it is
LONGEST = 60.0  # seconds; then a turn is taken for done


@dataclass(frozen=True)
class TurnSettings:
    """The Realtime protocol's `server_vad`. Times in seconds."""

    threshold: float = 0.5
    prefix: float = 0.3  # of sound before the onset that belongs to the turn
    silence: float = 0.5  # that ends it
    respond: bool = True  # its end is answered
    interrupt: bool = True  # a turn's beginning silences us


@dataclass(frozen=True)
class Started:
    """A turn began; its sound begins at `at`, which lies `prefix` before the onset or where the last turn ended."""

    at: float


@dataclass(frozen=True)
class Stopped:
    """The turn ended; its sound goes up to `at`, the silence included."""

    at: float


class Turns:
    """Feed blocks in order with `hear`; at most one turn is open at a time."""

    def __init__(self, settings: TurnSettings) -> None:
        self._settings = settings
        self._onset: float | None = None  # where speech began that is not yet long enough
        self._started: float | None = None  # of the open turn
        self._voiced = 0.0  # end of the last speech
        self._free = 0.0  # end of the last turn

    def hear(self, begin: float, end: float, probability: float) -> Started | Stopped | None:
        """A block of sound from `begin` to `end`, and how probably it is speech."""
        speaking = self._onset is not None or self._started is not None
        if probability >= self._settings.threshold - (HYSTERESIS if speaking else 0):
            self._voiced = end
            if not speaking:
                self._onset = begin
        elif self._started is None:
            self._onset = None
        if self._onset is not None and end - self._onset >= ONSET - 1e-6:
            self._started, self._onset = max(self._free, self._onset - self._settings.prefix), None
            return Started(self._started)
        if self._started is not None and self._over(self._started, end):
            return self.stop(end)
        return None

    def stop(self, at: float) -> Stopped:
        """End the open turn, if there is one; the next one's sound begins after `at`."""
        self._started = self._onset = None
        self._free = at
        return Stopped(at)

    def _over(self, started: float, now: float) -> bool:
        return now - self._voiced >= self._settings.silence - 1e-6 or now - started >= LONGEST
