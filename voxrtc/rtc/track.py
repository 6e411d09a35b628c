"""The playout track as aiortc sees it, and as a conversation writes to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from fractions import Fraction
from typing import Any
from weakref import WeakSet

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av.packet import Packet

from voxrtc.rtc.opus import CHEAPEST, COMPLEXITY, EXECUTOR, MANY, OpusEncoder, silence
from voxrtc.rtc.pacer import Pacer
from voxrtc.rtc.playout import LEAD, REFILL, Clock, Frame, Playout, PlayoutListener
from voxrtc.rtc.quality import Adaptation
from voxrtc.rtc.resampler import Resampler
from voxrtc.rtc.soon import Soon
from voxrtc.rtc.sound import RATE, RTP_RATE, TICKS, Samples

TIME_BASE = Fraction(1, RTP_RATE)
EARLY = 0.001  # seconds by which a clock's wake-up may be early
WAKE = RATE // 10  # room (samples) that wakes a waiting writer: 0.1 s, so that a full queue costs 10 wake-ups a second


class Utterance:
    """One stream's way into the track: write, then finish. Over when finished, flushed, or when the track stops."""

    def __init__(self, track: PlayoutTrack, generation: int) -> None:
        self._track = track
        self._generation = generation
        self._resampler = Resampler()
        self._finished = False

    @property
    def over(self) -> bool:
        """Nothing written now would be heard."""
        return self._finished or not self._track.plays(self._generation)

    async def write(self, pcm: bytes, sample_rate: int) -> bool:
        """Queue PCM16 (little endian, mono); waits while the queue is full. False: over, the rest was dropped.

        Raises `ValueError` when `pcm` is no PCM16, or its rate differs from that of the chunk before.
        """
        return not self.over and await self._put(self._resampler(pcm, sample_rate))

    async def finish(self) -> None:
        """Nothing follows; what is queued plays out. May wait for room for the resampler's last samples."""
        if not self.over and await self._put(self._resampler.flush()):
            self.end()

    def end(self) -> None:
        """As `finish`, at once: what still waits to be queued is dropped."""
        if not self.over:
            self._finished = True
            self._track.finish()

    async def _put(self, samples: Samples) -> bool:
        while len(samples):
            room = await self._track.room(min(len(samples), WAKE), lambda: self.over)
            if self.over:
                return False
            self._track.push(samples[:room])
            samples = samples[room:]
        return not self.over


class PlayoutTrack(MediaStreamTrack):
    """Continuous sound, one Opus packet every 20 ms; where nothing is spoken, silence, and then hardly a packet.

    `now` and `sleep` are the clock, for tests.
    """

    kind = "audio"

    def __init__(
        self,
        listener: PlayoutListener,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__()
        self._now, self._sleep = now, sleep
        self._playout = Playout(Soon(listener))
        self._pacer = Pacer()
        self._encoder: OpusEncoder | None = None  # of the present run
        self._adaptation = Adaptation()
        self._job: Future[None] | None = None
        self.monitor: Callable[[Samples | None], None] = _nobody  # told each frame that goes out; None: silence
        self.unheard: Callable[[], int | None] = _unknown  # the first packet that has not reached the ear, where the line knows
        self._turn = 0  # of lines: who took packets for an earlier one gets no more
        self._going = asyncio.Event()
        self._going.set()
        self._changed = asyncio.Event()  # room was made, or the present stream is over
        self._last = -1
        self._silent = 0  # frames since there was last something to play, or to wait for
        _TRACKS.add(self)

    # --- the conversation's side ---

    @property
    def clock(self) -> Clock | None:
        """The playout clock of the stream that plays; None between streams."""
        return self._playout.clock

    @property
    def busy(self) -> bool:
        """A stream plays, or is about to."""
        return self._playout.busy

    @property
    def underruns(self) -> int:
        """Underruns of all streams so far."""
        return self._playout.underruns

    async def begin(self, stream: str) -> Utterance:
        """Start a stream, once the one before has been played out or flushed. Raises `MediaStreamError` if stopped."""
        while self._playout.busy and self.readyState == "live":
            await self._wait()
        if self.readyState != "live":
            raise MediaStreamError
        return Utterance(self, self._playout.begin(stream))

    def remind(self, stream: str, seconds: float) -> None:
        """`Playout.remind`."""
        self._playout.remind(stream, seconds)

    def flush(self) -> Clock | None:
        """Silence within a frame: the present stream fades out and is over. Returns its last clock, as it was heard."""
        first = self.unheard()
        heard = None if first is None else self._playout.sent_before(first)
        clock = self._playout.flush()
        self._changed.set()
        return clock if clock is None or heard is None else replace(clock, sent=heard)

    def hold(self) -> None:
        """Silence within a frame, until `resume` or `flush`; what is written meanwhile waits."""
        self._playout.hold()

    def resume(self) -> None:
        """Go on where `hold` came, or some 100 ms earlier, where so much was still on its way to the ear."""
        self._playout.resume()
        self._encode_ahead()

    # --- the line's side ---

    def pause(self) -> None:
        """Nobody listens, or the line is behind: the clock stands, and nothing is sent, until `go`."""
        self._going.clear()
        self._playout.stall()

    def go(self) -> None:
        self._going.set()

    def detach(self) -> None:
        """The line that took packets so far gets no more; pauses until another one lets it `go`."""
        self._turn += 1
        self.unheard = _unknown
        self._playout.lead = LEAD
        self.pause()

    def keeps(self, unheard: Callable[[], int | None]) -> None:
        """The line loses nothing, and knows which packet is the first that has not reached the ear (None: there is none); upon
        a hold its browser keeps them."""
        self.unheard = unheard
        self._playout.lead = 0

    @property
    def last(self) -> int:
        """The number of the last packet that went out; -1: none. A packet's number is its time in frames."""
        return self._last

    def rewind(self, number: int) -> None:
        """`Playout.rewind`."""
        self._playout.rewind(number)
        self._encode_ahead()

    def lost(self, share: float) -> None:
        """So many of the packets do not arrive of late. What is encoded from the next pause on is made for that."""
        before = self._adaptation.quality
        if self._adaptation.report(share, self._now()) != before:
            self._playout.renew()

    # --- an utterance's side ---

    def plays(self, generation: int) -> bool:
        return self.readyState == "live" and self._playout.busy and self._playout.generation == generation

    def push(self, samples: Samples) -> None:
        self._playout.push(samples)
        self._encode_ahead()

    def finish(self) -> None:
        self._playout.finish()
        self._encode_ahead()
        self._changed.set()

    async def room(self, wanted: int, over: Callable[[], bool]) -> int:
        """Wait for room for `wanted` samples, or until `over`; returns the room there is."""
        while self._playout.room < wanted and not over():
            await self._wait()
        return self._playout.room

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # --- who takes the packets ---

    def due(self, now: float, again: Callable[[], None]) -> bytes | None:
        """The packet that is due by now, for who looks every 20 ms; its number is `last`. None: there is none. If it is still
        being encoded, `again` is called once it is there."""
        if self.readyState != "live" or not self._going.is_set() or self._pacer.wait(now) > EARLY:
            return None
        self._encode_ahead()
        if self._playout.late and self._job:
            if not self._job.done():
                asyncio.wrap_future(self._job).add_done_callback(lambda _: again())
                return None
            self._job.result()  # raises what went wrong
        self._pacer.sent(now)
        if (payload := self._payload()) is not None:
            self._last = self._playout.number - 1
        return payload

    async def recv(self) -> Packet[Any]:
        """The next 20 ms when they are due, or the next that are sent. Never None and never an early end: either would end
        the sender for good. May be cancelled: nothing is lost then."""
        turn, payload = self._turn, None
        while payload is None:
            if wait := self._pacer.wait(self._now()):
                await self._sleep(wait)
            await self._going.wait()
            self._check(turn)
            self._pacer.sent(self._now())
            self._encode_ahead()
            while self._playout.late and self._job:
                await asyncio.shield(asyncio.wrap_future(self._job))
            self._check(turn)
            payload = self._payload()
        packet = Packet(payload)
        self._last = self._playout.number - 1
        packet.pts, packet.time_base = self._last * TICKS, TIME_BASE
        return packet

    def _check(self, turn: int) -> None:
        if self.readyState != "live" or turn != self._turn:
            raise MediaStreamError

    def stop(self) -> None:
        super().stop()
        self._playout.flush()
        self._encoder = None  # now, and not when somebody collects garbage: it is not Python's memory alone
        self._changed.set()
        self._going.set()

    def _payload(self) -> bytes | None:
        """What goes out now; None: nothing, in a silence that lasts."""
        busy = self._playout.busy
        frame = self._playout.play()
        self.monitor(frame.pcm if frame else None)
        self._silent = 0 if frame or busy else self._silent + 1
        if frame is None:
            return silence(self._silent)
        if self._playout.room >= WAKE or busy != self._playout.busy:
            self._changed.set()
        if frame.payload is None:  # a fade: decided now, so encoded now (0.1 ms, and rare)
            self._encoder_of(frame).encode([frame])
        assert frame.payload is not None
        return frame.payload

    def _encode_ahead(self) -> None:
        """Keep `REFILL` to `AHEAD` frames encoded: a few frames a job, one job at a time, so in order."""
        if self._playout.ahead > REFILL or (self._job and not self._job.done()) or self.readyState != "live":
            return
        if frames := self._playout.take():
            self._job = EXECUTOR.submit(self._encoder_of(frames[0]).encode, frames)

    def _encoder_of(self, frame: Frame) -> OpusEncoder:
        if self._encoder is None or self._encoder.run != frame.run:
            complexity = CHEAPEST if sum(track.busy for track in _TRACKS) > MANY else COMPLEXITY
            self._encoder = OpusEncoder(frame.run, self._adaptation.quality, complexity)
        return self._encoder


_TRACKS: WeakSet[PlayoutTrack] = WeakSet()  # all of this process


def _nobody(frame: Samples | None) -> None:
    """Watches no sound go by."""


def _unknown() -> None:
    """What went out counts as heard."""
