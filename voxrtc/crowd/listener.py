"""One virtual listener: has something said, plays it at the speed of speech, and after a pause asks for more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from voxrtc.crowd.hearing import Hearing, Speaks, hear
from voxrtc.crowd.tally import Tally
from voxrtc.crowd.texts import length, text_of
from voxrtc.messages.engine import Generate

PAUSE = (0.3, 1.5)  # seconds between two utterances
RETRY = (1.0, 5.0)  # seconds until one who was turned away tries again, whatever the engine says

Phase = Literal["resting", "waiting", "playing", "dry", "away"]
Sleep = Callable[[float], Awaitable[None]]

_streams = itertools.count()


@dataclass(frozen=True)
class Place:
    """Where and when a listener lives."""

    engines: Speaks
    model: str
    clock: Callable[[], float]
    sleep: Sleep
    tally: Callable[[], Tally]  # that of the moment


class Listener:
    """`number` is its name in the crowd. `live` runs until it is cancelled, which ends its stream."""

    def __init__(self, number: int, place: Place, rng: random.Random) -> None:
        self.number = number
        self.failure = ""  # why it is not heard: `Failed.code` of its latest stream
        self._place, self._rng = place, rng
        self._hearing: Hearing | None = None  # None between utterances
        self._tally = place.tally()
        self._counted = False  # as having run dry

    async def live(self, after: float) -> None:
        """Come after so many seconds, and stay."""
        await self._place.sleep(after)
        while True:
            await self._listen(text_of(length(self._rng), self._rng))
            await self._place.sleep(self._pause())

    def phase(self, now: float) -> Phase:
        """What it does at the moment; `away`: it was turned away, or its engine is gone, and it will try again."""
        if self.failure:
            return "away"
        if self._hearing is None:
            return "resting"
        if not self._hearing.arrivals:
            return "waiting"
        return "dry" if self._hearing.dry(now) else "playing"

    @property
    def place(self) -> int:
        """In the engine's queue, as far as it was told; 0: not there."""
        return self._hearing.place if self._hearing and not self._hearing.arrivals else 0

    def slack(self, now: float) -> float:
        """Seconds of sound at hand."""
        return self._hearing.slack(now) if self._hearing else 0.0

    def spoilt(self, now: float) -> bool:
        """The present utterance has run dry at least once."""
        return self._hearing is not None and (self._hearing.player.stalled or self._hearing.dry(now))

    def look(self) -> None:
        """Notice when it has run dry, which nobody else tells."""
        if not self._counted and self.spoilt(self._place.clock()):
            self._counted = True
            self._tally.ran_dry()

    async def _listen(self, text: str) -> None:
        now, place = self._place.clock(), self._place
        self._hearing, self._tally, self._counted, self.failure = Hearing(now), place.tally(), False, ""
        stream = f"virtual {next(_streams)}"
        request = Generate(stream=stream, text=text, accepted=now, model=place.model, background=True)
        try:
            await hear(place.engines, request, self._hearing, place.clock, self._heard)
            self.failure = self._hearing.failure
            if self.failure:
                self._tally.turned_away(self.failure)
                await place.sleep(self._retry(self._hearing.retry_after))
            else:
                await place.sleep(self._hearing.slack(place.clock()))
        finally:
            self._hearing = None

    def _heard(self) -> None:
        assert self._hearing and self._hearing.ttfa is not None
        if len(self._hearing.arrivals) == 1:
            self._tally.first_sound(self._hearing.ttfa)
        self.look()

    def _retry(self, after: float | None) -> float:
        shortest, longest = RETRY
        return min(max(after or 0.0, shortest), longest) * self._rng.uniform(0.75, 1.25)

    def _pause(self) -> float:
        return self._rng.uniform(*PAUSE)
