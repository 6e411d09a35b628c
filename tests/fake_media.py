"""Media processes without WebRTC, for tests of the HTTP side: an echo, of an offer's SDP and of a WebSocket's events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from voxrtc.chat.media_client import CallRefused
from voxrtc.messages import encode
from voxrtc.messages.engine import Reference
from voxrtc.messages.media import Answer, Dig, MediaStats, Offer, Open


class EchoMedia:
    """`refusal`, when set, is raised instead of any answer; `calls` keeps the offers of calls that are up."""

    def __init__(self) -> None:
        self.calls: dict[str, Offer] = {}
        self.sockets: dict[str, Callable[[Any], object]] = {}
        self.sessions: list[dict[str, Any]] = []  # of all sockets so far
        self.tunnels: list[Dig] = []
        self.ends: list[str] = []  # of tunnels: how each ended
        self.said: list[str] = []
        self.refusal: CallRefused | None = None
        self.deaf: CallRefused | None = None  # raised when a client is to be told something
        self.told: list[tuple[str, str]] = []  # calls, and events for their clients
        self.voices: dict[str, Reference] = {}
        self.used: list[str] = []  # of these, by sessions
        self.counted: dict[str, MediaStats] = {}  # by process, in place of what goes on here
        self.found: Callable[[], None] = lambda: None
        self.over: Callable[[str], None] = lambda call: None

    async def answer(self, offer: Offer) -> Answer:
        if self.refusal:
            raise self.refusal
        encode(offer)  # as it would go to the media process
        self.calls[offer.call] = offer
        return Answer(call=offer.call, sdp=offer.sdp)

    async def hang_up(self, call: str) -> bool:
        if self.refusal:
            raise self.refusal
        if self.sockets.pop(call, None):
            self.ends.append("hung up")
        known = self.calls.pop(call, None) is not None
        if known:
            self.over(call)
        return known

    async def tell(self, call: str, text: str) -> None:
        if self.deaf:
            raise self.deaf
        self.told.append((call, text))

    async def open(self, call: str, session: dict[str, Any], listener: Callable[[str | None], None]) -> None:
        if self.refusal:
            raise self.refusal
        encode(Open(call=call, session=session))
        self.sessions.append(session)
        self._listen(call, listener)

    async def dig(self, tunnel: Dig, listener: Callable[[str | bytes | None], None]) -> None:
        if self.refusal:
            raise self.refusal
        encode(tunnel)
        self.tunnels.append(tunnel)
        self._listen(tunnel.call, listener)

    def packet(self, call: str, data: bytes) -> None:
        self.sockets[call](data)

    def lost(self, call: str) -> None:
        del self.sockets[call]
        self.ends.append("lost")

    def _listen(self, call: str, listener: Callable[[Any], None]) -> None:
        loop = asyncio.get_running_loop()
        self.sockets[call] = lambda text: loop.call_soon_threadsafe(listener, text)  # a test may have another loop

    async def say(self, call: str, text: str) -> None:
        if self.refusal:
            raise self.refusal
        self.said.append(text)
        self.sockets[call](text)

    async def keep_voice(self, voice: str, reference: Reference) -> None:
        if self.refusal:
            raise self.refusal
        self.voices[voice] = reference

    async def drop_voice(self, voice: str) -> None:
        if self.refusal:
            raise self.refusal
        self.voices.pop(voice, None)

    async def voices_used(self) -> list[str]:
        if self.refusal:
            raise self.refusal
        return self.used

    async def transcribe(self, pcm: bytes) -> str:
        if self.refusal:
            raise self.refusal
        return f"{len(pcm)} bytes"

    async def stats(self) -> dict[str, MediaStats]:
        if self.refusal:
            raise self.refusal
        return self.counted or {
            "media": MediaStats(call="stats", peers=len(self.calls), calls=len(self.calls), underruns=0, tasks=1)
        }
