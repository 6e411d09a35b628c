"""The sound of a listener who plays it himself: it is sent ahead of him, in events, and how far he is can only be estimated.

It has the face of `rtc.track.PlayoutTrack`. The client's `conversation.item.truncate` says better what was heard.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from voxrtc.chat.formats import encode, rate_of
from voxrtc.chat.session_settings import Format
from voxrtc.rtc.playout import Clock, PlayoutListener
from voxrtc.rtc.resampler import Resampler
from voxrtc.rtc.sound import RATE, Samples
from voxrtc.rtc.track import PlayoutTrack, Utterance

AHEAD = 5.0  # seconds that are sent before their time: an interruption wastes them
PIECE = 0.4  # seconds of an event at most


class SentListener(PlayoutListener, Protocol):
    """Who takes the sound to the client."""

    def sent(self, stream: str, audio: str) -> None:
        """The next sound of a stream: base64."""


class _Stream:
    """Taken to be played in real time from when its first sound is sent, and to stand when nothing is left. In seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent, self.underruns = 0.0, 0
        self._began: float | None = None  # when it would have begun, if it had never stood

    def send(self, now: float, seconds: float) -> None:
        if self._began is None:
            self._began = now
        elif now - self._began > self.sent:
            self._began, self.underruns = now - self.sent, self.underruns + 1
        self.sent += seconds

    def ahead(self, now: float) -> float:
        """What was sent and is not yet played."""
        return 0.0 if self._began is None else max(0.0, self.sent - (now - self._began))

    def clock(self, now: float) -> Clock:
        ahead = self.ahead(now)
        return Clock(self.name, round((self.sent - ahead) * RATE), round(ahead * RATE), self.underruns, ahead > 0)


class SentTrack:
    """One stream at a time. `now` and `sleep` are the clock, for tests."""

    def __init__(
        self,
        listener: SentListener,
        format: Callable[[], Format],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`format` is asked when a stream begins."""
        self.underruns = 0  # of streams that are over
        self._listener, self._format, self._now, self._sleep = listener, format, now, sleep
        self._stream: _Stream | None = None
        self._free = asyncio.Event()
        self._free.set()
        self._playing_out: asyncio.Task[None] | None = None

    @property
    def clock(self) -> Clock | None:
        """The estimate for the stream that plays; None between streams."""
        return self._stream.clock(self._now()) if self._stream else None

    async def begin(self, stream: str) -> SentUtterance:
        """Start a stream, once the one before has been played out or flushed."""
        while self._stream:
            await self._free.wait()
        self._free.clear()
        self._stream = _Stream(stream)
        return SentUtterance(self, self._stream, self._format())

    def flush(self) -> Clock | None:
        """The present stream is over: nothing more of it is sent. Returns its last clock."""
        clock = self.clock
        if self._playing_out:
            self._playing_out.cancel()
        self._end()
        return clock

    def remind(self, stream: str, seconds: float) -> None:
        """Nobody is told how far an estimate has come."""

    def lost(self, share: float) -> None:
        """Nothing can be, on the way that events take."""

    def stop(self) -> None:
        self.flush()

    # --- an utterance's side ---

    def plays(self, stream: _Stream) -> bool:
        return self._stream is stream

    async def send(self, stream: _Stream, samples: Samples, format: Format) -> None:
        """A piece, when it is not too early. Nothing, when the stream is over."""
        seconds = len(samples) / rate_of(format)
        while self.plays(stream) and (wait := stream.ahead(self._now()) + seconds - AHEAD) > 0:
            await self._sleep(wait)
        if not self.plays(stream):
            return
        first = not stream.sent
        stream.send(self._now(), seconds)
        self._listener.sent(stream.name, encode(samples, format))
        (self._listener.started if first else self._listener.progress)(stream.clock(self._now()))

    def finish(self, stream: _Stream) -> None:
        self._playing_out = asyncio.get_running_loop().create_task(self._play_out(stream))

    async def _play_out(self, stream: _Stream) -> None:
        while ahead := stream.ahead(self._now()):
            await self._sleep(ahead)
        self._end()
        self._listener.stopped(stream.clock(self._now()))

    def _end(self) -> None:
        if self._stream:
            self.underruns += self._stream.underruns
        self._stream = self._playing_out = None
        self._free.set()


class SentUtterance:
    """As `rtc.track.Utterance`."""

    def __init__(self, track: SentTrack, stream: _Stream, format: Format) -> None:
        self._track, self._stream, self._format = track, stream, format
        self._resampler = Resampler(rate_of(format))
        self._finished = False

    @property
    def over(self) -> bool:
        return self._finished or not self._track.plays(self._stream)

    async def write(self, pcm: bytes, sample_rate: int) -> bool:
        """Send PCM16; waits while enough is ahead. False: over, the rest was dropped."""
        if not self.over:
            await self._send(self._resampler(pcm, sample_rate))
        return not self.over

    async def finish(self) -> None:
        if not self.over:
            await self._send(self._resampler.flush())
            self.end()

    def end(self) -> None:
        if not self.over:
            self._finished = True
            self._track.finish(self._stream)

    async def _send(self, samples: Samples) -> None:
        most = round(PIECE * rate_of(self._format))
        for at in range(0, len(samples), most):
            await self._track.send(self._stream, samples[at : at + most], self._format)


AnyTrack = PlayoutTrack | SentTrack
AnyUtterance = Utterance | SentUtterance
