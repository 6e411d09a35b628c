"""`/v1/voxrtc/tunnel`: a call whose sound goes through a WebSocket, for networks that let no UDP out (`rtc.tunnel`).

The first message is text, `{"session": …, "resume": …}`, as in an offer; then events as on the data channel, and packets as
binary messages. Who closes with 1000 hangs up; anything else is a line that broke, and may come back on another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid

import msgspec
from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.host import Host
from voxrtc.api.limits import MAX_BODY
from voxrtc.api.pump import BAD_REQUEST, LATER, Pump, is_foreign, refuse, refuse_as
from voxrtc.api.wanted import Wanted
from voxrtc.chat import events
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.switchboard import Switchboard
from voxrtc.messages.media import Dig
from voxrtc.pace import Pace

HUNG_UP, ELSEWHERE = 1000, 4001  # close codes
HELLO_WITHIN = 5.0  # seconds
UNREAD = 1 << 20  # bytes that may wait for a browser: sound is bounded by what it reports, so these are events
LARGEST = 1 << 12  # bytes of a packet; Opus has at most 1275
FASTEST = 100  # packets a second: twice as many as there is sound
PATIENCE = 1.0  # seconds that they may run ahead of that, after the network stood


class Hello(Wanted, kw_only=True):
    """The first message."""

    ticket: str = ""  # of who stood in line


def _read(text: str) -> Hello:
    """Raises `RecursionError` and `msgspec.DecodeError`."""
    if len(text) > MAX_BODY:
        raise msgspec.ValidationError(f"it is longer than {MAX_BODY}")
    return msgspec.json.decode(text, type=Hello)


def router(media: Switchboard, host: Host) -> APIRouter:
    """The route over the media processes."""
    routes = APIRouter(tags=["realtime"])

    @routes.websocket("/v1/voxrtc/tunnel")
    async def tunnel(socket: WebSocket) -> None:
        await socket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            if await is_foreign(socket):
                return
            try:
                hello = _read(await asyncio.wait_for(socket.receive_text(), HELLO_WITHIN))
            except (TimeoutError, KeyError, RecursionError, msgspec.DecodeError) as error:
                message = f"The first message is text, with a session and what to resume ({type(error).__name__}: {error})."
                return await refuse(socket, BAD_REQUEST, "invalid_request", message)
            talk = _Talk(socket, media)
            try:
                if hello.resume and hello.resume.token:
                    host.resume(address_of(socket))
                else:
                    host.begin(talk.call, address_of(socket), hello.ticket)
            except ApiError as error:
                return await refuse(socket, LATER, error.code, str(error.detail))
            try:
                await talk.begin(hello)
            except BaseException as error:
                host.over(talk.call)
                if isinstance(error, CallRefused):
                    return await refuse_as(socket, error)
                raise
            await talk.run()

    return routes


class _Talk:
    """One browser, from its first event to its last."""

    def __init__(self, socket: WebSocket, media: Switchboard) -> None:
        self._socket, self._media = socket, media
        self.call = f"tunnel_{uuid.uuid4().hex}"
        self._pump = Pump(socket, UNREAD, "This browser does not read its events.")
        self._hung_up = False
        self._pace = Pace(FASTEST)

    async def begin(self, hello: Hello) -> None:
        """Raises `CallRefused`."""
        await self._media.dig(Dig(call=self.call, session=hello.session, resume=hello.resume), self._pump.tell)

    async def run(self) -> None:
        """Until its end."""
        await self._pump.run(self._to_media(), self._over, self._leave)

    async def _over(self) -> None:
        """The browser has another line, or the media process is gone."""
        await self._socket.close(ELSEWHERE, "This line is over.")

    async def _leave(self) -> None:
        if self._hung_up:
            await self._media.hang_up(self.call)
        else:
            self._media.lost(self.call)

    async def _to_media(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._hung_up = message.get("code") == HUNG_UP
                return
            if (packet := message.get("bytes")) is not None:
                await self._pass(packet)
            elif not await self._say(message["text"]):
                return self._pump.tell(None)

    async def _pass(self, packet: bytes) -> None:
        """A packet; who sends them too fast waits in its own connection."""
        if len(packet) > LARGEST:
            return self._pump.tell(
                events.error("packet_too_large", f"A packet may have {LARGEST} bytes; this has {len(packet)}.")
            )
        now = time.monotonic()
        self._pace.count(1, now)
        if (early := self._pace.ahead(now) - PATIENCE) > 0:
            await asyncio.sleep(early)
        self._media.packet(self.call, packet)

    async def _say(self, text: str) -> bool:
        """An event, when the one before was dealt with. False: nobody is there any more."""
        if len(text.encode()) > events.MAX_EVENT:
            self._pump.tell(
                events.error("event_too_large", f"An event may have {events.MAX_EVENT} bytes; this has {len(text)}.")
            )
            return True
        try:
            await self._media.say(self.call, text)
        except CallRefused:
            return False
        return True
