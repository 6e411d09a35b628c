"""What a listener's track plays and when: pacing, the bounded queue, underruns, holds, fades, and the playout clock.

Pure: no asyncio, no codec, no clock of its own. `track.py` feeds it to aiortc. Follows DESIGN.md section 4.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from voxrtc.rtc.clock import Clock, Frame, PlayoutListener, Sent, Stream
from voxrtc.rtc.sound import FADE, FRAME, RATE, SampleQueue, Samples, echo, fade_in, fade_out, frame_of

AHEAD, REFILL = 14, 4  # frames encoded before they are due; when so few are left, the next are encoded, ten in a job
CAPACITY = 2 * RATE  # samples that may wait; beyond it the writer waits
LOOKAHEAD = 60  # samples (2.5 ms) that a low-delay Opus encoder keeps back: silence pushes the last ones out
PROGRESS = 25  # frames between two readings of a clock that runs: its reader lets it run on between them
LEAD = 6  # frames that are played once more after a hold: they were on their way to an ear that was hushed meanwhile
QUIET = 330  # of 32768 (-40 dB): a frame that stays below is a pause
PAST = 250  # frames (5 s) that are remembered: a broken line is noticed within 3 s, and what it lost is played once more


class Playout:
    """One listener's outgoing sound. At most one stream plays at a time; between streams there is silence.

    A stream's samples wait in a queue, become frames a little ahead of time (`take`), and leave one frame at a time
    (`play`). `flush` forgets both, so nothing of an interrupted stream can come back: whoever still encodes one of
    its frames holds an object that nobody reads any more. `hold` puts frames back into the queue, for `resume`. So does
    `rewind`, also frames that were sent.
    """

    def __init__(self, listener: PlayoutListener, capacity: int = CAPACITY) -> None:
        self.generation = 0
        self._listener = listener
        self._capacity = capacity
        self._stream: Stream | None = None
        self._queue = SampleQueue()
        self._ahead: deque[Frame] = deque()
        self._fade: Frame | None = None
        self._run = 0
        self._fade_in = False
        self._heard: Samples = np.zeros(FRAME, np.int16)  # the frame sent last
        self._recent: Samples = np.zeros(FADE, np.int16)  # the samples pushed last
        self._past: deque[Sent] = deque(maxlen=PAST)
        self._last: Stream | None = None  # that was played out, and was not followed by another
        self.number = 0  # frames so far, those of silence included
        self.held = False  # nothing is played
        self.lead = LEAD  # frames
        self._renews = False
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
        return max(0, self._capacity - len(self._queue))

    def begin(self, stream: str) -> int:
        """Start a stream and return its generation. The one before must be over."""
        assert self._stream is None, f"{self._stream} is still playing"
        self.generation += 1
        self._run += 1
        self._fade_in = False
        self._recent = np.zeros(FADE, np.int16)
        self._past.clear()
        self._stream, self._last = Stream(stream), None
        return self.generation

    def push(self, samples: Samples) -> None:
        """Append samples (no more than `room`) to the present stream."""
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
            self._die_away()
        elif stream.written:
            self._stop(stream)
        else:
            self._stream = None

    def flush(self) -> Clock | None:
        """Drop all that waits, and end a hold; what is being heard fades out within the next frame. Returns the last clock."""
        stream, self._stream = self._stream, None
        self.held = False
        if stream is None:
            return None
        clock = stream.clock()
        if stream.sounds:
            self._fade_out()
        self._queue, self._ahead = SampleQueue(), deque()
        self._past.clear()
        self.generation += 1
        return clock

    def hold(self) -> None:
        """Play nothing until `resume` or `flush`: the present stream fades out within the next frame, and waits.

        Its clock stands, and nobody counts that as an underrun. Writing goes on.
        """
        if self.held:
            return
        self.held = True
        stream = self._stream
        if stream is None:
            return
        sounded = stream.sounds
        if sounded:
            self._fade_out()
        lead = min(self.lead, stream.heard, len(self._past)) if sounded else 0
        self._put_back(stream, [self._past.pop() for _ in range(lead)][::-1])
        stream.counted = stream.sent
        stream.heard = 0
        self._stand(stream)

    def resume(self) -> None:
        """End a hold. A stream that was held amid its sound plays its last `lead` frames once more, and goes on."""
        self.held = False

    def stall(self) -> None:
        """For the time being nobody takes frames: the clock stands, and that is no underrun either."""
        if self._stream:
            self._stand(self._stream)

    def renew(self) -> None:
        """Begin a new run at the next pause, where nobody hears that another encoder goes on."""
        self._renews = True

    def sent_before(self, number: int) -> int | None:
        """Samples of the stream that went out before the packets from `number` on; None: none of these had any."""
        return next((each.before for each in self._past if each.number >= number), None)

    def rewind(self, number: int) -> None:
        """Nobody has heard the frames from `number` on: as far as they are remembered, they are played once more.

        The clock goes back with them. A stream that was played out meanwhile plays again from there to its end.
        """
        unheard: list[Sent] = []
        while self._past and self._past[-1].number >= number:
            unheard.insert(0, self._past.pop())
        stream = self._stream or self._last
        if stream is None or not unheard:
            return
        self._put_back(stream, unheard)
        stream.sent = stream.counted = unheard[0].before
        self._fade = None
        if self._stream is None:
            self._stream, self._last = stream, None
            self._die_away()
        self._stand(stream)

    def _put_back(self, stream: Stream, sent: list[Sent]) -> None:
        """Frames that were sent, and all that wait, into the queue: a new run will begin with them."""
        frames = [*(each.pcm for each in sent), *(frame.pcm for frame in self._ahead)]
        stream.framed -= sum(frame.length for frame in self._ahead) + sum(len(each.pcm) for each in sent)
        self._queue.put_back(frames)
        self._ahead = deque()
        self._run += 1
        self._fade_in = stream.started

    def _stand(self, stream: Stream) -> None:
        if stream.sounds:
            stream.held = True
            self._listener.progress(stream.clock())

    def _die_away(self) -> None:
        """What comes last in the queue is the end."""
        self._queue.push(np.concatenate([echo(self._recent), np.zeros(LOOKAHEAD, np.int16)]))

    def _fade_out(self) -> None:
        """Let the sound that would come next die away."""
        coming = self._ahead[0].pcm[:FADE] if self._ahead else self._queue.peek(FADE)
        fade = fade_out(coming) if len(coming) == FADE else echo(self._heard)
        self._run += 1
        self._fade = Frame(self._run, frame_of(fade), primer=self._heard)

    # --- the encoder ---

    @property
    def ahead(self) -> int:
        """Frames that wait to be played, encoded or being encoded."""
        return len(self._ahead)

    def take(self) -> list[Frame]:
        """New frames to encode, in order and of one run, as far as `AHEAD` allows. Set their `payload`."""
        frames: list[Frame] = []
        stream = self._stream
        while stream and not self.held and len(self._ahead) < AHEAD and self._frame_ready(stream):
            primer = None
            if self._renews and np.abs(self._queue.peek(FRAME)).max(initial=0) < QUIET:
                if frames:
                    break
                primer = self._ahead[-1].pcm if self._ahead else self._heard
                self._renews, self._run = False, self._run + 1
            pcm = self._queue.pop(FRAME)
            if len(pcm) < FRAME:
                pcm = frame_of(pcm)
            if self._fade_in:
                fade_in(pcm)
                self._fade_in = False
            length = min(FRAME, stream.written - stream.framed)
            stream.framed += length
            fresh = max(0, stream.framed - stream.counted)
            stream.counted += fresh
            frames.append(Frame(self._run, pcm, fresh, length, primer))
            self._ahead.append(frames[-1])
        return frames

    def _frame_ready(self, stream: Stream) -> bool:
        return len(self._queue) >= FRAME or (stream.finished and len(self._queue) > 0)

    # --- the pace ---

    @property
    def late(self) -> bool:
        """The frame that is due is still being encoded."""
        return self._fade is None and bool(self._ahead) and self._ahead[0].payload is None

    def play(self) -> Frame | None:
        """The frame that goes out now, None for silence. A frame without `payload` is a fade, to be encoded now."""
        assert not self.late
        self.number += 1
        if self._fade is not None:
            fade, self._fade = self._fade, None
            self._heard = fade.pcm
            return fade
        stream = self._stream
        if stream is None or self.held:
            return None
        if self._ahead:
            return self._send(stream, self._ahead.popleft())
        if stream.sounds:
            return self._run_dry(stream)
        return None

    def _send(self, stream: Stream, frame: Frame) -> Frame:
        flipped = not stream.sounds
        first, stream.started, stream.dry, stream.held = not stream.started, True, False, False
        self._past.append(Sent(self.number - 1, frame.pcm[: frame.length], stream.sent))
        stream.sent += frame.samples
        stream.frames += 1
        stream.heard += 1
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

    def _run_dry(self, stream: Stream) -> Frame:
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

    def _stop(self, stream: Stream) -> None:
        self._stream, self._last = None, stream
        self._listener.stopped(stream.clock())
