"""A session's line over a WebSocket, which the web process holds: what `rtc.peer.Peer` is over WebRTC."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import msgspec

from voxrtc.chat.events import InputAppend
from voxrtc.chat.formats import rate_of
from voxrtc.chat.sent_track import SentTrack
from voxrtc.chat.session import Session
from voxrtc.chat.session_settings import Format
from voxrtc.pace import Pace

MAX_EVENT = 1 << 22  # bytes: a minute of sound
SLICE = 1 << 13  # characters of base64 that are listened to in one turn of the loop: 128 ms as PCM; a whole number of samples
FASTEST = 8.0  # seconds of sound a second: who sends more is slowed down, since a look at it takes the others' time
UNHEARD = 16  # times as fast other events may come, character for character: nobody looks for speech in them
PATIENCE = 0.1  # seconds that it may run ahead of that


class Socket:
    """Messages come one by one with `take`, whose end asks for the next; so a client that sends too fast waits."""

    paced = False
    packets = 0  # sound comes in events
    connected = True

    def __init__(self, session: Session, send: Callable[[str], None], over: Callable[[Socket], None]) -> None:
        self.send, self._over = send, over
        self.track = SentTrack(session.speaking, lambda: session.output_format)
        self.session = session
        self._listened = Pace(FASTEST)
        self._closed = False
        session.line = self

    def open(self) -> None:
        self.session.opened()

    async def take(self, text: str) -> None:
        """A message of the client."""
        event = self.session.parsed(text, MAX_EVENT)
        if event is None:
            return
        if not isinstance(event, InputAppend):
            self.session.handle(event)
            return await self._pace(len(text) // UNHEARD, self.session.input_format)
        for audio in _slices(event.audio):
            await self._pace(len(audio), self.session.input_format)
            if self._closed:
                return
            self.session.handle(msgspec.structs.replace(event, audio=audio))

    async def close(self) -> None:
        """Nothing of it is left then. May be called again."""
        if not self._closed:
            self._closed = True
            self.track.stop()
            self.session.closed()
            self._over(self)

    async def _pace(self, characters: int, format: Format) -> None:
        size = 2 if format.type == "audio/pcm" else 1
        seconds = characters * 3 / 4 / size / rate_of(format)
        now = time.monotonic()
        self._listened.count(seconds, now)
        await asyncio.sleep(max(0.0, self._listened.ahead(now) - PATIENCE))


def _slices(audio: str) -> Iterator[str]:
    """At least one, so that a mistake in an empty or odd one is told, too."""
    for at in range(0, max(1, len(audio)), SLICE):
        yield audio[at : at + SLICE]
