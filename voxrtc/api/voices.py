"""Voices that people brought along, for as long as they use them. Pure: its clock is given.

Whoever knows a voice's id may use it, and ids cannot be guessed. An owner counts for bounds only.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from voxrtc.api.errors import ApiError
from voxrtc.api.recording import Recording

OWN = 6  # voices of one owner; of more the least recently used goes
MOST = 48  # of all: 70 MB, if each is as long as it may be
IDLE = 600.0  # seconds without use, after which a voice goes
SPARED = 120.0  # seconds since its last use in which a voice does not go for a stranger's


@dataclass(frozen=True)
class Voice:
    """`owner` is an address's household; `created` is in seconds since 1970."""

    id: str
    name: str
    owner: str
    created: float
    recording: Recording


class Voices:
    """At most `OWN` of an owner and `MOST` of all. What goes is given back, since others know of it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, Voice]] = OrderedDict()  # least recently first

    def add(self, owner: str, name: str, recording: Recording, now: float) -> tuple[Voice, list[Voice]]:
        """A new voice at `now` (seconds since 1970), and those that went for it. Raises `ApiError` 503."""
        own = [voice for _, voice in self._used.values() if voice.owner == owner]
        gone: list[Voice] = []
        if len(own) >= OWN:
            gone = own[:1]
        elif len(self._used) >= MOST:
            used, oldest = next(iter(self._used.values()))
            if (left := used + SPARED - self._clock()) > 0:
                message = f"All {MOST} places for voices are in use. Please try again in a few minutes."
                raise ApiError(503, "too_many_voices", message, retry_after=left)
            gone = [oldest]
        for voice in gone:
            self.remove(voice.id)
        voice = Voice(f"voice_{secrets.token_hex(16)}", name, owner, now, recording)
        self._used[voice.id] = (self._clock(), voice)
        return voice, gone

    def find(self, id: str) -> Voice | None:
        """A voice that is used just now."""
        if not (entry := self._used.get(id)):
            return None
        self._used[id] = (self._clock(), entry[1])
        self._used.move_to_end(id)
        return entry[1]

    def used(self, ids: Iterable[str]) -> None:
        """These are in use, as far as they are there."""
        for id in ids:
            self.find(id)

    def left(self, id: str) -> float:
        """Seconds until a voice that is there goes, if nobody uses it."""
        return max(0.0, self._used[id][0] + IDLE - self._clock())

    def remove(self, id: str) -> Voice | None:
        """It is gone; None: it was."""
        entry = self._used.pop(id, None)
        return entry[1] if entry else None

    def idle(self) -> list[Voice]:
        """Those that nobody used for long, and that are gone now."""
        since = self._clock() - IDLE
        gone = [voice for used, voice in self._used.values() if used <= since]
        for voice in gone:
            self.remove(voice.id)
        return gone

    @property
    def all(self) -> list[Voice]:
        """The least recently used first."""
        return [voice for _, voice in self._used.values()]
