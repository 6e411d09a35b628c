"""`/v1/realtime`: a Realtime session over a WebSocket. Its events go to the media process that has the session, and back."""

from __future__ import annotations

import contextlib
import uuid

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.host import Host
from voxrtc.api.pump import BAD_REQUEST, LATER, Pump, is_foreign, refuse, refuse_as
from voxrtc.chat import events
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.socket import MAX_EVENT
from voxrtc.chat.switchboard import Switchboard

PROTOCOL = (
    "realtime"  # the subprotocol of clients that cannot send headers; their others carry a key, which nobody asks for here
)
UNREAD = 1 << 22  # characters that may wait for a client that does not read: four times the sound that is sent ahead


def router(media: Switchboard, host: Host) -> APIRouter:
    """The route over the media processes."""
    routes = APIRouter(tags=["realtime"])

    @routes.websocket("/v1/realtime")
    async def realtime(socket: WebSocket, model: str = "", call_id: str = "") -> None:
        await socket.accept(PROTOCOL if PROTOCOL in socket.scope["subprotocols"] else None)
        with contextlib.suppress(WebSocketDisconnect):
            if await is_foreign(socket):
                return
            if call_id:
                message = "A call cannot be joined by a WebSocket; send its events on its data channel."
                return await refuse(socket, BAD_REQUEST, "invalid_value", message)
            talk = _Talk(socket, media)
            try:
                host.begin(talk.call, address_of(socket))
            except ApiError as error:
                return await refuse(socket, LATER, error.code, str(error.detail))
            try:
                await talk.run({"model": model} if model else {})
            finally:
                host.over(talk.call)

    return routes


class _Talk:
    """One client, from its first event to its last."""

    def __init__(self, socket: WebSocket, media: Switchboard) -> None:
        self._socket, self._media = socket, media
        self.call = f"ws_{uuid.uuid4().hex}"
        self._pump = Pump(socket, UNREAD, "This client does not read its events.")

    async def run(self, session: dict[str, str]) -> None:
        try:
            await self._media.open(self.call, session, self._pump.tell)
        except CallRefused as refusal:
            return await refuse_as(self._socket, refusal)
        await self._pump.run(self._to_media(), self._lost, self._leave)

    async def _lost(self) -> None:
        message = "The session is lost: the media process stopped and is being restarted. Please connect again."
        await refuse(self._socket, LATER, "media_lost", message)

    async def _leave(self) -> None:
        await self._media.hang_up(self.call)

    async def _to_media(self) -> None:
        """Event by event, each when the one before was dealt with: meanwhile the client's wait in its own connection."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                self._pump.tell(events.error("invalid_event", "Events are text; sound goes into them as base64."))
            elif len(text) > MAX_EVENT:
                size = f"An event may have {MAX_EVENT} bytes; this one has {len(text)}."
                self._pump.tell(events.error("event_too_large", size))
            else:
                try:
                    await self._media.say(self.call, text)
                except CallRefused:
                    return self._pump.tell(None)
