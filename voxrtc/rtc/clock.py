"""How far a stream has come on its way to its listener: the playout clock, the counts behind it, and its frames. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from voxrtc.rtc.sound import RATE, Samples


@dataclass(frozen=True, slots=True)
class Clock:
    """The playout clock of one stream, in samples at `RATE`."""

    stream: str
    sent: int  # handed to the transport
    waiting: int  # written and still to be sent
    underruns: int  # times that it ran dry between its first and its last sample
    running: bool  # its sound is going out now

    @property
    def played(self) -> float:
        """Seconds sent."""
        return self.sent / RATE


class PlayoutListener(Protocol):
    """Who is told of a stream's way to its listener."""

    def started(self, clock: Clock) -> None:
        """The first sample was handed to the transport."""

    def progress(self, clock: Clock) -> None:
        """The clock has begun to run, stands (the sound ran dry or is held), has run for half a second, or as far as it
        was to be told (`Playout.remind`)."""

    def stopped(self, clock: Clock) -> None:
        """The stream was finished, and all of it has been sent."""


@dataclass(slots=True, eq=False)
class Frame:
    """20 ms on their way out. One encoder encodes the frames of a `run` in order; each run starts afresh, so that
    its first packet depends on nothing that the listener did or did not hear before."""

    run: int
    pcm: Samples  # (`FRAME`,)
    samples: int = 0  # of the stream, played for the first time
    length: int = 0  # of the stream in all; what follows is padding or a fade
    primer: Samples | None = None  # (`FRAME`,) what was heard just before, when the run begins amid sound
    payload: bytes | None = None  # set once encoded


@dataclass(slots=True, eq=False)
class Sent:
    """A frame of the present stream, or the last one, that was sent."""

    number: int
    pcm: Samples  # of the stream, without padding
    before: int  # samples of the stream that had been sent


@dataclass(slots=True)
class Stream:
    """One generation: a stream from `begin` to its last sample or its flush. Counts samples of its own."""

    name: str
    written: int = 0
    framed: int = 0  # goes back upon a hold
    counted: int = 0  # framed for the first time
    sent: int = 0
    underruns: int = 0
    finished: bool = False
    started: bool = False
    dry: bool = False
    held: bool = False  # amid its sound, and not heard again since
    frames: int = 0
    heard: int = 0  # frames since it began or was held last
    remind: float = math.inf  # samples sent at which the listener is told

    @property
    def sounds(self) -> bool:
        """Its sound is being heard."""
        return self.started and not self.dry and not self.held

    def clock(self) -> Clock:
        running = self.sounds and not (self.finished and self.sent == self.written)
        return Clock(self.name, self.sent, self.written - self.sent, self.underruns, running)
