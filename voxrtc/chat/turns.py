"""When the person begins, pauses and ends a turn, from how likely each block of sound is speech. Pure: time comes with the
sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ONSET = 0.096  # seconds that speech must last: a click or a bump is no turn
HYSTERESIS = 0.15  # of probability: what is still speech, once it is
LASTING = 0.8  # seconds of speech that are no backchannel any more, whatever the words
PAUSE = 0.16  # seconds of silence that are worth a look at the words
LONGEST = 60.0  # seconds; then a turn is taken for done


Eagerness = Literal["low", "medium", "auto", "high"]


@dataclass(frozen=True)
class Patience:
    """How long a silence ends a turn, in seconds."""

    least: float  # when the sentence is surely finished
    unknown: float  # as long as nobody knows
    most: float  # when it surely is not


EAGERNESS: dict[Eagerness, Patience] = {
    "low": Patience(0.5, 1.2, 3.0),
    "medium": Patience(0.3, 0.8, 1.5),
    "auto": Patience(0.3, 0.8, 1.5),
    "high": Patience(0.2, 0.5, 1.0),
}


@dataclass(frozen=True)
class TurnSettings:
    """The Realtime protocol's `server_vad`; with `eagerness`, its `semantic_vad`, and `silence` has no effect. Times in
    seconds.
    """

    threshold: float = 0.5
    prefix: float = 0.3  # of sound before the onset that belongs to the turn
    silence: float = 0.5  # that ends it
    eagerness: Eagerness | None = None
    respond: bool = True  # its end is answered
    interrupt: bool = True  # a turn's beginning silences us

    def patience(self, over: float | None) -> float:
        """Seconds of silence that end a turn whose speaker has finished with the probability `over`, if that is known."""
        if self.eagerness is None:
            return self.silence
        patience = EAGERNESS[self.eagerness]
        return patience.unknown if over is None else patience.least * (patience.most / patience.least) ** (1 - over)


@dataclass(frozen=True)
class Started:
    """A turn began; its sound begins at `at`, which lies `prefix` before the onset or where the last turn ended."""

    at: float


@dataclass(frozen=True)
class Lasted:
    """Its speech has become longer than `LASTING`. Told once a turn."""


@dataclass(frozen=True)
class Paused:
    """There was no speech for `PAUSE`. Told once a pause."""


@dataclass(frozen=True)
class Stopped:
    """The turn ended; its sound goes up to `at`, the silence included."""

    at: float


class Turns:
    """Feed blocks in order with `hear`; at most one turn is open at a time."""

    def __init__(self, settings: TurnSettings) -> None:
        self._settings = settings
        self._onset = 0.0  # where speech began; it is not yet long enough while there is no turn
        self._speaking = False
        self._started: float | None = None  # of the open turn
        self._spoken = 0.0  # seconds of speech in it
        self._lasted = self._paused = False
        self._voiced = 0.0  # end of the last speech
        self._free = 0.0  # end of the last turn
        self._patience = settings.patience(None)

    def hear(self, begin: float, end: float, probability: float) -> Started | Lasted | Paused | Stopped | None:
        """A block of sound from `begin` to `end`, and how probably it is speech."""
        open_turn = self._started is not None
        if probability >= self._settings.threshold - (HYSTERESIS if open_turn or self._speaking else 0):
            if not (open_turn or self._speaking):
                self._onset, self._spoken = begin, 0.0
            self._spoken += end - begin
            self._speaking, self._paused = True, False
            self._voiced, self._patience = end, self._settings.patience(None)
        else:
            self._speaking = False
        return self._in_turn(self._started, end) if self._started is not None else self._before_turn(end)

    @property
    def speaking(self) -> bool:
        """The last block was speech."""
        return self._speaking

    @property
    def length(self) -> float:
        """Seconds from the onset of the present turn, or the last one, to the end of its speech so far."""
        return self._voiced - self._onset

    def wait(self, patience: float) -> None:
        """The present silence, and no other, ends the turn after so many seconds."""
        self._patience = patience

    def stop(self, at: float) -> Stopped:
        """End the open turn, if there is one; the next one's sound begins after `at`."""
        self._started, self._speaking = None, False
        self._free = at
        return Stopped(at)

    def _before_turn(self, now: float) -> Started | None:
        if not self._speaking or now - self._onset < ONSET - 1e-6:
            return None
        self._started = max(self._free, self._onset - self._settings.prefix)
        self._lasted = False
        return Started(self._started)

    def _in_turn(self, started: float, now: float) -> Lasted | Paused | Stopped | None:
        silent = now - self._voiced
        if (not self._speaking and silent >= self._patience - 1e-6) or now - started >= LONGEST:
            return self.stop(now)
        if not self._lasted and self._spoken >= LASTING - 1e-6:
            self._lasted = True
            return Lasted()
        if not self._paused and silent >= PAUSE - 1e-6:
            self._paused = True
            return Paused()
        return None
