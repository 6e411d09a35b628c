"""What the web process holds of a media process."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from voxrtc.engine.transport import Connection
from voxrtc.messages.engine import Reference
from voxrtc.messages.media import (
    Answer,
    ClientEvent,
    ClientPacket,
    Closed,
    Dig,
    Drain,
    DropVoice,
    GetMediaStats,
    GetVoices,
    HangUp,
    HungUp,
    KeepVoice,
    Lost,
    MediaReply,
    MediaRequest,
    MediaStats,
    Noted,
    Offer,
    Open,
    Opened,
    Over,
    Refused,
    ServerEvent,
    ServerPacket,
    Taken,
    Tell,
    Told,
    Transcribe,
    Transcribed,
    VoicesUsed,
)

STOPPED = "The media process stopped; it is being restarted. Please try again in a few seconds."
ANSWER_WITHIN = 10.0  # seconds; a STUN server that says nothing takes 5 of them
SAY_WITHIN = 60.0  # seconds; an event may bring minutes of sound, which are listened to a little at a time


class CallRefused(Exception):
    """An offer that was not taken, or a media process that is not there (503). `status` is the HTTP status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class MediaClient:
    """Offers in, answers out. Make and use it on one running event loop; it finds a restarted process by itself.

    `over` is told each call that has ended, and None when the media process is gone and all of them with it; `found` is
    called whenever one is there.
    """

    def __init__(self, address: str) -> None:
        self.over: Callable[[str | None], None] = lambda call: None
        self.found: Callable[[], None] = lambda: None
        self._connected = asyncio.Event()
        self._silent = False
        # By question; two may hang the same call up at once, and the first answer is for both.
        self._open: defaultdict[str, list[asyncio.Future[MediaReply]]] = defaultdict(list)
        self._listeners: dict[str, Callable[[Any], None]] = {}  # of open WebSockets
        self._numbers = itertools.count()
        self._connection = Connection(address, MediaReply, self._take, self._changed)

    @property
    def there(self) -> bool:
        """It takes requests, and has answered since it last let one wait in vain."""
        return self._connected.is_set() and not self._silent

    async def answer(self, offer: Offer) -> Answer:
        """Set a call up. Raises `CallRefused`."""
        reply = await self._ask(offer)
        assert isinstance(reply, Answer)
        return reply

    async def open(self, call: str, session: dict[str, Any], listener: Callable[[str | None], None]) -> None:
        """Begin a session over a WebSocket; `listener` is told every server event from then on, and None when the media
        process is gone. Raises `CallRefused`."""
        await self._begin(Open(call=call, session=session), listener)

    async def dig(self, tunnel: Dig, listener: Callable[[str | bytes | None], None]) -> None:
        """As `open`, of a tunnel: `listener` is told packets, too, and None also when the tunnel is over."""
        await self._begin(tunnel, listener)

    def packet(self, call: str, data: bytes) -> None:
        """A tunnel's client sends one."""
        self._connection.send(ClientPacket(call=call, data=data))

    def lost(self, call: str) -> None:
        """A tunnel's client is gone, and may come back."""
        self._listeners.pop(call, None)
        self._connection.send(Lost(call=call))

    async def say(self, call: str, text: str) -> None:
        """Its client says something; returns when that was dealt with. Raises `CallRefused` when the session is gone."""
        reply = await self._ask(ClientEvent(call=call, text=text), within=SAY_WITHIN)
        assert isinstance(reply, Taken)
        if not reply.known:
            raise gone(STOPPED)

    async def tell(self, call: str, text: str) -> None:
        """Send a call's client a server event, if it is there still. Raises `CallRefused` when the media process is gone."""
        await self._ask(Tell(call=call, text=text))

    async def hang_up(self, call: str) -> bool:
        """End a call; False when there was none. Raises `CallRefused` when the media process is gone."""
        self._listeners.pop(call, None)
        reply = await self._ask(HangUp(call=call))
        assert isinstance(reply, HungUp)
        return reply.known

    async def drain(self, seconds: float) -> None:
        """Have every call end, within about so long. Raises `CallRefused` when the media process is gone."""
        await self._ask(Drain(call="drain", seconds=seconds), within=seconds + ANSWER_WITHIN)

    async def stats(self, within: float = ANSWER_WITHIN) -> MediaStats:
        """Peers and sums. Raises `CallRefused` when the media process is gone, or has not told them in so many seconds."""
        reply = await self._ask(GetMediaStats(call=f"stats_{next(self._numbers)}"), within)
        assert isinstance(reply, MediaStats)
        return reply

    async def keep_voice(self, voice: str, reference: Reference) -> None:
        """Sessions may choose the recording's voice, by its id. Raises `CallRefused` when the media process is gone."""
        await self._ask(KeepVoice(call=voice, reference=reference))

    async def drop_voice(self, voice: str) -> None:
        """No session has it any longer. Raises `CallRefused` when the media process is gone."""
        await self._ask(DropVoice(call=voice))

    async def voices_used(self) -> list[str]:
        """The ids of those that sessions have chosen. Raises `CallRefused` when the media process is gone."""
        reply = await self._ask(GetVoices(call=f"voices_{next(self._numbers)}"))
        assert isinstance(reply, VoicesUsed)
        return reply.voices

    async def transcribe(self, pcm: bytes) -> str:
        """The words of a recording (PCM16, 16 kHz). Raises `CallRefused`, also when it could not be heard."""
        reply = await self._ask(Transcribe(call=f"words_{next(self._numbers)}", pcm=pcm), within=SAY_WITHIN)
        assert isinstance(reply, Transcribed)
        if reply.code:
            raise CallRefused(503, reply.code, reply.message)
        return reply.text

    async def ready(self) -> None:
        """Wait until the media process takes requests."""
        await self._connected.wait()

    async def close(self) -> None:
        self._lose()
        await self._connection.close()

    async def _begin(self, request: Open | Dig, listener: Callable[[Any], None]) -> None:
        self._listeners[request.call] = listener
        try:
            await self._ask(request)
        except BaseException:
            self._listeners.pop(request.call, None)
            raise

    async def _ask(self, request: MediaRequest, within: float = ANSWER_WITHIN) -> MediaReply:
        """Its reply. Raises `CallRefused`, also when that is one."""
        if not self._connected.is_set():
            raise gone("The media process is starting. Please try again in a few seconds.")
        key = f"{_QUESTIONS[type(request)]} {request.call}"  # a call may be hung up while it is being answered
        future = asyncio.get_running_loop().create_future()
        self._open[key].append(future)
        try:
            if not self._connection.send(request):
                self._connected.clear()  # before the monitor says so
                raise gone(STOPPED)
            reply = await asyncio.wait_for(future, within)
        except TimeoutError:
            self._silent = True
            raise gone(f"The media process does not answer within {within:.0f} s. Please try again.") from None
        finally:
            self._open[key].remove(future)
            if not self._open[key]:
                del self._open[key]
        if isinstance(reply, Refused):
            raise CallRefused(reply.status, reply.code, reply.message)
        return reply

    def _take(self, reply: MediaReply) -> None:
        self._silent = False
        if isinstance(reply, Over):
            return self.over(reply.call)
        if isinstance(reply, ServerEvent | ServerPacket | Closed):
            if listener := self._listeners.get(reply.call):
                listener(_told(reply))
            return
        for future in self._open.get(f"{_QUESTIONS[type(reply)]} {reply.call}", ()):
            if not future.done():
                future.set_result(reply)

    def _changed(self, connected: bool) -> None:
        if connected:
            self._silent = False
            self._connected.set()
            self.found()
        else:
            self._connected.clear()
            self._lose()

    def _lose(self) -> None:
        for future in itertools.chain.from_iterable(self._open.values()):
            if not future.done():
                future.set_exception(gone(STOPPED))
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener(None)
        self.over(None)


def _told(reply: ServerEvent | ServerPacket | Closed) -> str | bytes | None:
    match reply:
        case ServerEvent(text=text):
            return text
        case ServerPacket(data=data):
            return data
        case Closed():
            return None


# What belongs together, of requests and replies
_QUESTIONS = {
    **dict.fromkeys((Offer, Open, Dig, Answer, Opened, Refused), "begin"),
    **dict.fromkeys((ClientEvent, Taken), "say"),
    **dict.fromkeys((Tell, Told), "tell"),
    **dict.fromkeys((HangUp, HungUp), "hang up"),
    **dict.fromkeys((GetMediaStats, MediaStats), "stats"),
    **dict.fromkeys((KeepVoice, DropVoice, Drain, Noted), "note"),
    **dict.fromkeys((GetVoices, VoicesUsed), "voices"),
    **dict.fromkeys((Transcribe, Transcribed), "words"),
}


def gone(message: str) -> CallRefused:
    """The process that is asked is not there, or does not answer."""
    return CallRefused(503, "media_lost", message)
