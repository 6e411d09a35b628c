"""One browser whose sound cannot go by UDP: Opus packets through a WebSocket that the web process holds, both ways.

The same track as over WebRTC, paced by the same clock, so slack stays known. TCP loses nothing, but it may stand for a while:
the browser tells how far it has rendered, and when too much is under way the track pauses instead of filling the socket.

Downwards a binary message is a packet: its number (u32, big endian), and Opus; no Opus is 20 ms of silence, or more where
numbers are left out. Upwards it is a kind (u8) and a number (u32): `SOUND`, time in samples at 48 kHz, then Opus; `RENDERED`,
the number of the last packet that reached the ear.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
from collections import deque
from collections.abc import Callable

from aiortc.mediastreams import MediaStreamError

from voxrtc.rtc.microphone import Microphone
from voxrtc.rtc.opus import NOTHING
from voxrtc.rtc.peer import PeerListener
from voxrtc.rtc.track import PlayoutTrack

SOUND, RENDERED = 0, 1
UNDER_WAY = 50  # packets (1 s) that may be between us and the ear: a jitter buffer, a round trip of half a second, and no more
TICK = 0.25  # seconds between two looks at it
DEAD_AFTER = 5.0  # seconds without a word: the page reports several times a second

NUMBER = struct.Struct(">I")
UPWARDS = struct.Struct(">BI")

logger = logging.getLogger(__name__)


class BadPacket(ValueError):
    """A binary message that is none of ours."""


class Tunnel:
    """As `rtc.peer.Peer`: `open`, then `took` for each binary message, `heard` for each of text, until `close`.

    `send` takes what goes to the browser, and never waits. `now` is the clock, for tests.
    """

    state = "connected"

    def __init__(
        self, listener: PeerListener, send: Callable[[str | bytes], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.send: Callable[[str], None] = send
        self._send, self._listener, self._now = send, listener, now
        self._microphone = Microphone(listener)
        self._track: PlayoutTrack | None = None
        self._under_way: deque[int] = deque()  # numbers of packets
        self._rendered = asyncio.Event()
        self._heard = now()
        self.on_close: Callable[[], None] = _nothing  # called once
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        self._listener.opened()
        self._tasks.append(asyncio.create_task(self._watch()))

    # --- the sound ---

    def attach(self, track: PlayoutTrack) -> None:
        self._track = track
        track.keeps(lambda: self._under_way[0] if self._under_way else None)
        self._tasks.append(asyncio.create_task(self._pump(track)))

    def detach(self) -> None:
        self._track = None

    def number(self, stamp: int) -> int:
        """Of a packet that the browser names: that is its own."""
        return stamp

    async def _pump(self, track: PlayoutTrack) -> None:
        """Send what the track plays, until that is another line's."""
        with contextlib.suppress(MediaStreamError):
            while self._track is track:
                packet = await track.recv()
                self._under_way.append(track.last)
                payload = bytes(packet)
                self._send(NUMBER.pack(track.last % (1 << 32)) + (b"" if payload == NOTHING else payload))
                await self._room(track)

    async def _room(self, track: PlayoutTrack) -> None:
        """Hold the clock while the socket is backed up, or the browser renders nothing."""
        while len(self._under_way) >= UNDER_WAY and self._track is track:
            track.pause()
            self._rendered.clear()
            await self._rendered.wait()
        if self._track is track:
            track.go()

    # --- the browser's side ---

    @property
    def packets(self) -> int:
        """Of the microphone, that came."""
        return self._microphone.packets

    def took(self, data: bytes) -> None:
        """A binary message. Raises `BadPacket`."""
        if len(data) < UPWARDS.size:
            raise BadPacket(f"A packet has {UPWARDS.size} bytes at least; this one has {len(data)}.")
        self._heard = self._now()
        kind, number = UPWARDS.unpack_from(data)
        if kind == SOUND:
            self._microphone.hear(number, data[UPWARDS.size :], self._heard)
        elif kind == RENDERED:
            self._has_rendered(number)
        else:
            raise BadPacket(f"There is no packet of kind {kind}.")

    def received(self, text: str) -> None:
        """A message of text: an event."""
        self._heard = self._now()
        self._listener.received(text)

    def _has_rendered(self, number: int) -> None:
        while self._under_way and self._under_way[0] <= number:
            self._under_way.popleft()
        if len(self._under_way) < UNDER_WAY:
            self._rendered.set()

    async def _watch(self) -> None:
        while self._now() - self._heard < DEAD_AFTER:
            await asyncio.sleep(TICK)
            self._microphone.idle(self._now())
        logger.info("a browser's socket went silent")
        await self.close()

    async def close(self) -> None:
        """Nothing of it is left then. May be called again."""
        if self._closed:
            return
        self._closed = True
        self.detach()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._listener.closed()
        self.on_close()


def _nothing() -> None:
    """Nobody asked to be told."""
