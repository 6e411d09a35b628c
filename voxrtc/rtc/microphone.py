"""The browser's microphone: Opus packets as they come, made into 16 kHz mono blocks in order and without gaps.

Stock aiortc holds every packet back until four later ones are there (reference/webrtc.md: 81-96 ms) and decodes in a thread
a receiver. Here a packet is decoded as it comes, and only those that overtook another wait.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import av
import numpy as np
from av.packet import Packet

from voxrtc.pace import Pace
from voxrtc.rtc.resampler import Resampler
from voxrtc.rtc.sound import FRAME_SECONDS, RTP_RATE, SampleQueue, Samples

RATE = 16_000
BLOCK = 512  # samples (32 ms): what a voice activity detector reads at a time
BLOCK_SECONDS = BLOCK / RATE
DEPTH = 4  # later packets (80 ms) that wait for a missing one; then it is lost
RESTART = 100  # packets: a larger jump is no loss, the sender began anew
LONGEST_GAP = 2 * RTP_RATE  # what a longer silence between two packets adds
AHEAD = RTP_RATE // 2  # how much more silence than the sender's clock shows is remembered
DRY = 0.2  # seconds without a packet, after which its absence is silence
FASTEST = 8.0  # seconds of sound a second: a look at more would take other calls' time, so it is not heard
PATIENCE = 0.5  # seconds that it may run ahead of that: what a network kept for 4 s comes at once

logger = logging.getLogger(__name__)


class SoundPacket(Protocol):
    """An RTP packet, as far as it matters here."""

    sequence_number: int
    timestamp: int  # of its first sample, at 48 kHz
    payload: bytes  # Opus; none: a packet that only says that the sender is there


class Reorder:
    """Packets in the order of their sequence numbers, each at once unless one before it is missing. Pure."""

    def __init__(self) -> None:
        self._next: int | None = None  # unwrapped
        self._waiting: dict[int, SoundPacket] = {}

    def add(self, packet: SoundPacket) -> list[SoundPacket]:
        """The packets whose turn it is now. Those that come twice or too late are dropped."""
        number = packet.sequence_number
        if self._next is None:
            self._next = number
        ahead = (number - self._next + 0x8000) % 0x10000 - 0x8000
        if abs(ahead) >= RESTART:
            self._waiting.clear()
            self._next, ahead = number, 0
        if ahead < 0:
            return []
        self._waiting[self._next + ahead] = packet
        if len(self._waiting) > DEPTH:
            self._next = min(self._waiting)
        ready = []
        while self._next in self._waiting:
            ready.append(self._waiting.pop(self._next))
            self._next += 1
        return ready


class MicrophoneListener(Protocol):
    """Who listens to the person."""

    def heard(self, block: Samples) -> None:
        """The next `BLOCK` samples at `RATE`. Blocks follow each other without gaps, in the time of the sender's clock."""


class Microphone:
    """One browser's incoming sound. Holds less than a block, and `DEPTH` packets.

    RTP timestamps tell the sender's time: where packets are lost, or where the sender saves them (DTX), there is silence. A
    sender that stops altogether is silent, too: call `idle` now and then. What comes much faster than it can have been said, by
    packets or by their timestamps, is left out.
    """

    def __init__(self, listener: MicrophoneListener) -> None:
        self._listener = listener
        self._reorder = Reorder()
        self._codec = av.CodecContext.create("libopus", "r")
        self._codec.format, self._codec.layout, self._codec.sample_rate = "s16", "mono", RTP_RATE
        self._resample = Resampler(RATE)
        self._queue = SampleQueue()
        self._expected: int | None = None  # RTP timestamp of the next packet
        self._ahead = 0  # samples at 48 kHz of silence that the sender's clock has not shown yet
        self.packets = 0  # that came
        self._pace = Pace(FASTEST)
        self._until: float | None = None  # there is sound up to this time; None before the first packet

    def take(self, packet: SoundPacket, now: float) -> None:
        """A packet came in at `now` (seconds)."""
        self._until = now
        for each in self._reorder.add(packet):
            self.hear(each.timestamp, each.payload, now)

    def hear(self, timestamp: int, payload: bytes, now: float) -> None:
        """As `take`, of packets that come in order: what was sent at `timestamp` (samples at 48 kHz, 32 bits)."""
        self._until = now
        self.packets += 1
        if self._pace.ahead(now) > PATIENCE:
            return
        before = self._silence(timestamp)
        sound = self._decoded(payload) if payload else np.zeros(0, np.int16)
        seconds = max(FRAME_SECONDS, (len(before) + len(sound)) / RATE)  # small packets are as much work
        self._pace.count(seconds, now)
        self._deliver(np.concatenate([before, sound]))

    def idle(self, now: float) -> None:
        """Make silence of the time since the last packet, when it is long."""
        if self._until is None or now - self._until < DRY:
            return
        silence = round((now - self._until) * RTP_RATE)
        self._until = now
        self._ahead = min(self._ahead + silence, AHEAD)
        self._deliver(np.zeros(silence * RATE // RTP_RATE, np.int16))

    def _silence(self, timestamp: int) -> Samples:
        """Up to the packet of this timestamp, as far as there is none already; at `RATE`."""
        gap = 0 if self._expected is None else (timestamp - self._expected + (1 << 31)) % (1 << 32) - (1 << 31)
        self._expected = timestamp
        if not 0 < gap <= LONGEST_GAP:
            return np.zeros(0, np.int16)
        silence = max(0, gap - self._ahead)
        self._ahead -= min(gap, self._ahead)
        return np.zeros(silence * RATE // RTP_RATE, np.int16)

    def _decoded(self, payload: bytes) -> Samples:
        """A packet's sound at `RATE`; one that cannot be decoded leaves a gap, which the next one shows."""
        try:
            frames = self._codec.decode(Packet(payload))
        except av.FFmpegError as error:
            logger.info("a packet of the microphone cannot be decoded: %s", error)
            return np.zeros(0, np.int16)
        assert self._expected is not None
        self._expected = (self._expected + sum(frame.samples for frame in frames)) % (1 << 32)
        sound = [self._resample(bytes(frame.planes[0])[: 2 * frame.samples], RTP_RATE) for frame in frames]
        return np.concatenate(sound) if sound else np.zeros(0, np.int16)

    def _deliver(self, samples: Samples) -> None:
        self._queue.push(samples)
        while len(self._queue) >= BLOCK:
            # In the loop's next turn: what the listener raises must not reach the transport, which would end.
            asyncio.get_running_loop().call_soon(self._listener.heard, self._queue.pop(BLOCK))
