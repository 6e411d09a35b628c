"""What a listener's track plays and when: pacing, the bounded queue, underruns, fades, and the playout clock.

Pure: no asyncio, no codec, no clock of its own. `track.py` feeds it to aiortc. Follows DESIGN.md section 4.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from voxrtc.rtc.sound import (
    FADE,
    FRAME,
    FRAME_SECONDS,
    RATE,
    SampleQueue,
    Samples,
    echo,
    fade_in,
    fade_out,
    frame_of,
)

AHEAD, REFILL = 9, 4  # frames encoded before they are due; when so few are left, the next are encoded
CAPACITY = 2 * RATE  # samples that may wait; beyond it the writer waits
LOOKAHEAD = 120  # samples (2.5 ms) that a low-delay Opus encoder keeps back: silence pushes the last ones out
PROGRESS = 25  # frames between two readings of a clock that runs: its reader lets it run on between them


class Pacer:
    """When each frame is due, on the caller's clock (seconds).

    A wake-up more than one frame late moves the schedule: the missed time is gone, and is not sent in a burst.
    """

    def __init__(self) -> None:
        self._due: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until the next frame goes out; none when it is due already."""
        return 0.0 if self._due is None else max(0.0, self._due - now)

    def sent(self, now: float) -> None:
        """A frame goes out now: the next is due 20 ms after it was due, or after now when it was late."""
        if self._due is None or now - self._due > FRAME_SECONDS:
            self._due = now
        self._due += FRAME_SECONDS


@dataclass(frozen=True, slots=True)
class Clock:
    """The playout clock of one stream, in samples at 48 kHz."""

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
        """The clock has begun to run, stands (the sound ran dry), has run for `PROGRESS` frames, or as far as it was to be
        told (`Playout.remind`)."""

    def stopped(self, clock: Clock) -> None:
        """The stream was finished, and all of it has been sent."""


@dataclass(slots=True, eq=False)
class Frame:
    """20 ms on their way out. One encoder encodes the frames of a `run` in order; each run starts afresh, so that
    its first packet depends on nothing that the listener did or did not hear before."""

    run: int
    pcm: Samples  # (960,)
    samples: int = 0  # of the stream's own; the rest is padding or a fade
    primer: Samples | None = None  # (960,) what was heard just before, when the run begins amid sound
    payload: bytes | None = None  # set once encoded


@dataclass(slots=True)
class _Stream:
    """One generation: a stream from `begin` to its last sample or its flush. Counts samples of its own."""

    name: str
    written: int = 0
    framed: int = 0
    sent: int = 0
    underruns: int = 0
    finished: bool = False
    started: bool = False
    dry: bool = False
    frames: int = 0
    remind: float = math.inf  # samples sent at which the listener is told

    def clock(self) -> Clock:
        running = self.started and not self.dry and not (self.finished and self.sent == self.written)
        return Clock(self.name, self.sent, self.written - self.sent, self.underruns, running)


class Playout:
    """One listener's outgoing sound. At most one stream plays at a time; between streams there is silence.

    A stream's samples wait in a queue, become frames a little ahead of time (`take`), and leave one frame at a time
    (`play`). `flush` forgets both, so nothing of an interrupted stream can come back: whoever still encodes one of
    its frames holds an object that nobody reads any more.
    """

    def __init__(self, listener: PlayoutListener, capacity: int = CAPACITY) -> None:
        self.generation = 0
        self._listener = listener
        self._capacity = capacity
        self._stream: _Stream | None = None
        self._queue = SampleQueue()
        self._ahead: deque[Frame] = deque()
        self._fade: Frame | None = None
        self._run = 0
        self._fade_in = False
        self._heard: Samples = np.zeros(FRAME, np.int16)  # the frame sent last
        self._recent: Samples = np.zeros(FADE, np.int16)  # the samples pushed last
        self.underruns = 0

    # --- the writer ---

    @property
    def busy(self) -> bool:
        """A stream has begun and is neither played out nor flushed."""
        return self._stream is not None

    @property
    def clock(self) -> Clock | None:
        """The present stream's clock; None between streams."""
        return self._stream.clock() if self._stream else None

    @property
    def room(self) -> int:
        """Samples that may be pushed now."""
        return self._capacity - len(self._queue)

    def begin(self, stream: str) -> int:
        """Start a stream and return its generation. The one before must be over."""
        assert self._stream is None, f"{self._stream} is still playing"
        self.generation += 1
        self._run += 1
        self._fade_in = False
        self._recent = np.zeros(FADE, np.int16)
        self._stream = _Stream(stream)
        return self.generation

    def push(self, samples: Samples) -> None:
        """Append samples (48 kHz, no more than `room`) to the present stream."""
        assert self._stream is not None
        assert not self._stream.finished
        assert len(samples) <= self.room
        self._queue.push(samples)
        self._recent = np.concatenate([self._recent, samples[-FADE:]])[-FADE:]
        self._stream.written += len(samples)

    def remind(self, stream: str, seconds: float) -> None:
        """Tell the listener of the `progress` when so much of `stream` is sent, if that plays then; a later wish replaces an
        earlier one."""
        if self._stream and self._stream.name == stream:
            self._stream.remind = seconds * RATE

    def finish(self) -> None:
        """Nothing follows: what is queued plays out, ends in a short fade (so that an end is never a step), and
        `stopped` is told. A stream without a single sample is over at once and in silence."""
        stream = self._stream
        if stream is None or stream.finished:
            return
        stream.finished = True
        if stream.framed < stream.written or (stream.written and not stream.dry):
            self._queue.push(np.concatenate([echo(self._recent), np.zeros(LOOKAHEAD, np.int16)]))
        elif stream.written:
            self._stop(stream)
        else:
            self._stream = None

    def flush(self) -> Clock | None:
        """Drop all that waits; sound that is being heard fades out within the next frame. Returns the last clock."""
        stream, self._stream = self._stream, None
        if stream is None:
            return None
        if stream.started and not stream.dry:
            coming = self._ahead[0].pcm[:FADE] if self._ahead else self._queue.pop(FADE)
            fade = fade_out(coming) if len(coming) == FADE else echo(self._heard)
            self._run += 1
            self._fade = Frame(self._run, frame_of(fade), primer=self._heard)
        self._queue, self._ahead = SampleQueue(), deque()
        self.generation += 1
        return stream.clock()

    # --- the encoder ---

    @property
    def ahead(self) -> int:
        """Frames that wait to be played, encoded or being encoded."""
        return len(self._ahead)

    def take(self) -> list[Frame]:
        """New frames to encode, in order and of one run, as far as `AHEAD` allows. Set their `payload`."""
        frames: list[Frame] = []
        stream = self._stream
        while stream and len(self._ahead) < AHEAD and self._frame_ready(stream):
            pcm = frame_of(self._queue.pop(FRAME))
            if self._fade_in:
                fade_in(pcm)
                self._fade_in = False
            own = min(FRAME, stream.written - stream.framed)
            stream.framed += own
            frames.append(Frame(self._run, pcm, own))
            self._ahead.append(frames[-1])
        return frames

    def _frame_ready(self, stream: _Stream) -> bool:
        return len(self._queue) >= FRAME or (stream.finished and len(self._queue) > 0)

    # --- the pace ---

    @property
    def late(self) -> bool:
        """The frame that is due is still being encoded."""
        return self._fade is None and bool(self._ahead) and self._ahead[0].payload is None

    def play(self) -> Frame | None:
        """The frame that goes out now, None for silence. A frame without `payload` is a fade, to be encoded now."""
        assert not self.late
        if self._fade is not None:
            fade, self._fade = self._fade, None
            self._heard = fade.pcm
            return fade
        stream = self._stream
        if stream is None:
            return None
        if self._ahead:
            return self._send(stream, self._ahead.popleft())
        if stream.started and not stream.dry:
            return self._run_dry(stream)
        return None

    def _send(self, stream: _Stream, frame: Frame) -> Frame:
        flipped = stream.dry or not stream.started
        first, stream.started, stream.dry = not stream.started, True, False
        stream.sent += frame.samples
        stream.frames += 1
        self._heard = frame.pcm
        if first:
            self._listener.started(stream.clock())
        if stream.finished and not self._ahead and not len(self._queue):
            self._stop(stream)
        elif flipped or stream.frames % PROGRESS == 0 or stream.sent >= stream.remind:
            if stream.sent >= stream.remind:
                stream.remind = math.inf
            self._listener.progress(stream.clock())
        return frame

    def _run_dry(self, stream: _Stream) -> Frame:
        """The sound did not come in time: let what was heard last die away instead of cutting it off."""
        stream.dry = True
        stream.underruns += 1
        self.underruns += 1
        fade = Frame(self._run, frame_of(echo(self._heard)))
        self._run += 1
        self._fade_in = True
        self._heard = fade.pcm
        self._listener.progress(stream.clock())
        return fade

    def _stop(self, stream: _Stream) -> None:
        self._stream = None
        self._listener.stopped(stream.clock())
