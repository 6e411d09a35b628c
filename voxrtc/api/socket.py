"""`/v1/realtime`: a Realtime session over a WebSocket. Its events go to the media process, which has the session, and back."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.host import Host
from voxrtc.api.origin import foreign
from voxrtc.chat import events
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.chat.socket import MAX_EVENT

PROTOCOL = (
    "realtime"  # the subprotocol of clients that cannot send headers; their others carry a key, which nobody asks for here
)
UNREAD = 1 << 22  # characters that may wait for a client that does not read: four times the sound that is sent ahead
BAD_REQUEST, REFUSED, TOO_SLOW, LATER = 4000, 1008, 1008, 1013  # close codes (RFC 6455 section 7.4; 4000 is ours)


def router(media: MediaClient, host: Host) -> APIRouter:
    """The route over the media process."""
    routes = APIRouter(tags=["realtime"])

    @routes.websocket("/v1/realtime")
    async def realtime(socket: WebSocket, model: str = "", call_id: str = "") -> None:
        await socket.accept(PROTOCOL if PROTOCOL in socket.scope["subprotocols"] else None)
        with contextlib.suppress(WebSocketDisconnect):
            if origin := foreign(socket.headers):
                message = f"Pages of {origin} may not talk to this server."
                return await _refuse(socket, REFUSED, "cross_origin", message)
            if call_id:
                message = "A call cannot be joined by a WebSocket; send its events on its data channel."
                return await _refuse(socket, BAD_REQUEST, "invalid_value", message)
            talk = _Talk(socket, media)
            try:
                host.begin(talk.call, address_of(socket))
            except ApiError as error:
                return await _refuse(socket, LATER, error.code, str(error.detail))
            try:
                await talk.run({"model": model} if model else {})
            finally:
                host.over(talk.call)

    return routes


class _Talk:
    """One client, from its first event to its last."""

    def __init__(self, socket: WebSocket, media: MediaClient) -> None:
        self._socket, self._media = socket, media
        self.call = f"ws_{uuid.uuid4().hex}"
        self._unsent: asyncio.Queue[str | None] = asyncio.Queue()  # None: the media process is gone
        self._unread = 0  # characters
        self._too_slow = asyncio.Event()

    async def run(self, session: dict[str, str]) -> None:
        try:
            await self._media.open(self.call, session, self._tell)
        except CallRefused as refusal:
            code = LATER if refusal.status == 503 else BAD_REQUEST
            return await _refuse(self._socket, code, refusal.code, refusal.message)
        ways = [asyncio.ensure_future(way) for way in (self._to_client(), self._to_media(), self._too_slow.wait())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            with contextlib.suppress(CallRefused):
                await self._media.hang_up(self.call)
        if self._too_slow.is_set():
            with contextlib.suppress(TimeoutError):  # it may not read this either
                await asyncio.wait_for(self._socket.close(TOO_SLOW, "This client does not read its events."), 1.0)

    def _tell(self, text: str | None) -> None:
        self._unsent.put_nowait(text)
        self._unread += len(text or "")
        if self._unread > UNREAD:
            self._too_slow.set()

    async def _to_client(self) -> None:
        """Until it leaves, or the media process is gone."""
        while (text := await self._unsent.get()) is not None:
            await self._socket.send_text(text)
            self._unread -= len(text)
        message = "The session is lost: the media process stopped and is being restarted. Please connect again."
        await _refuse(self._socket, LATER, "media_lost", message)

    async def _to_media(self) -> None:
        """Event by event, each when the one before was dealt with: meanwhile the client's wait in its own connection."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                self._tell(events.error("invalid_event", "Events are text; sound goes into them as base64."))
            elif len(text) > MAX_EVENT:
                size = f"An event may have {MAX_EVENT} bytes; this one has {len(text)}."
                self._tell(events.error("event_too_large", size))
            else:
                try:
                    await self._media.say(self.call, text)
                except CallRefused:
                    return self._tell(None)


async def _refuse(socket: WebSocket, status: int, code: str, message: str) -> None:
    """Say why, and close."""
    await socket.send_text(events.error(code, message))
    await socket.close(status, code)
