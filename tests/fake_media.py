"""A media process without WebRTC, for tests of the HTTP side: an echo, of an offer's SDP and of a WebSocket's events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from voxrtc.chat.media_client import CallRefused
from voxrtc.messages.media import Answer, MediaStats, Offer


class EchoMedia:
    """`refusal`, when set, is raised instead of any answer; `calls` keeps the offers of calls that are up."""

    def __init__(self) -> None:
        self.calls: dict[str, Offer] = {}
        self.sockets: dict[str, Callable[[str | None], None]] = {}
        self.sessions: list[dict[str, Any]] = []  # of all sockets so far
        self.said: list[str] = []
        self.refusal: CallRefused | None = None

    async def answer(self, offer: Offer) -> Answer:
        if self.refusal:
            raise self.refusal
        self.calls[offer.call] = offer
        return Answer(call=offer.call, sdp=offer.sdp)

    async def hang_up(self, call: str) -> bool:
        if self.refusal:
            raise self.refusal
        self.sockets.pop(call, None)
        return self.calls.pop(call, None) is not None

    async def open(self, call: str, session: dict[str, Any], listener: Callable[[str | None], None]) -> None:
        if self.refusal:
            raise self.refusal
        self.sessions.append(session)
        loop = asyncio.get_running_loop()
        self.sockets[call] = lambda text: loop.call_soon_threadsafe(listener, text)  # a test may have another loop

    async def say(self, call: str, text: str) -> None:
        if self.refusal:
            raise self.refusal
        self.said.append(text)
        self.sockets[call](text)

    async def stats(self) -> MediaStats:
        if self.refusal:
            raise self.refusal
        return MediaStats(call="stats", peers=len(self.calls), calls=len(self.calls), underruns=0, tasks=1)
