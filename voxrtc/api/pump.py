"""Between a client's WebSocket and its session in the media process: what both routes over one have in common."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import WebSocket

from voxrtc.api.guard import cross_origin
from voxrtc.api.origin import foreign
from voxrtc.chat import events
from voxrtc.chat.media_client import CallRefused

BAD_REQUEST, REFUSED, TOO_SLOW, LATER = 4000, 1008, 1008, 1013  # close codes (RFC 6455 section 7.4; 4000 is ours)
FAREWELL = 1.0  # seconds that a client which does not read has for the reason


class Pump:
    """Messages go to the client in order. Who leaves more than `most` of them unread, bytes or characters, is let go."""

    def __init__(self, socket: WebSocket, most: int, reproach: str) -> None:
        self._socket, self._most, self._reproach = socket, most, reproach
        self._unsent: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._unread = 0
        self._too_slow = asyncio.Event()

    def tell(self, message: str | bytes | None) -> None:
        """None: that was the last one."""
        self._unsent.put_nowait(message)
        self._unread += len(message or "")
        if self._unread > self._most:
            self._too_slow.set()

    async def run(
        self, take: Coroutine[Any, Any, None], end: Callable[[], Awaitable[None]], leave: Callable[[], Awaitable[None]]
    ) -> None:
        """Until the client has left, which `take` is to tell, reads too slowly, or was told the last message and then `end`.
        Then `leave`."""
        ways = [asyncio.ensure_future(way) for way in (self._send(end), take, self._too_slow.wait())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            with contextlib.suppress(CallRefused):
                await leave()
        if self._too_slow.is_set():
            with contextlib.suppress(TimeoutError):  # it may not read this either
                await asyncio.wait_for(self._socket.close(TOO_SLOW, self._reproach), FAREWELL)

    async def _send(self, end: Callable[[], Awaitable[None]]) -> None:
        while (message := await self._unsent.get()) is not None:
            await (self._socket.send_bytes(message) if isinstance(message, bytes) else self._socket.send_text(message))
            self._unread -= len(message)
        await end()


async def refuse(socket: WebSocket, status: int, code: str, message: str) -> None:
    """Say why, and close."""
    await socket.send_text(events.error(code, message))
    await socket.close(status, code)


async def refuse_as(socket: WebSocket, refusal: CallRefused) -> None:
    """As the media process says."""
    await refuse(socket, LATER if refusal.status == 503 else BAD_REQUEST, refusal.code, refusal.message)


async def is_foreign(socket: WebSocket) -> bool:
    """Whether another site's page has opened it; then it is refused."""
    if origin := foreign(socket):
        await refuse(socket, REFUSED, "cross_origin", cross_origin(origin))
    return bool(origin)
