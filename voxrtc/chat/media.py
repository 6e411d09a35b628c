"""The media process: `python -m voxrtc.chat.media --engine lark=ipc://… --hearing ipc://… --chat ipc://… --listen ipc://…`.

Settings come from the environment. One asyncio loop of peers and their conversations. It serves `MediaRequest`s; it ends
with the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import secrets
import signal
from collections.abc import Callable
from functools import partial
from typing import Protocol

from voxrtc.asr.client import HearingClient, Transcriber
from voxrtc.chat import events
from voxrtc.chat.choice import Choice, choose
from voxrtc.chat.echo import EchoGuard, guarded
from voxrtc.chat.embedded import EmbeddedReplier
from voxrtc.chat.endpoint import ChatEndpoint
from voxrtc.chat.events import EventError
from voxrtc.chat.manner import Manner
from voxrtc.chat.reply import Replier
from voxrtc.chat.session import Session
from voxrtc.chat.session_settings import SessionSettings
from voxrtc.chat.socket import Socket
from voxrtc.chat.talk import Seat, Talk
from voxrtc.chat.tally import Tally
from voxrtc.chat.turns import TurnSettings
from voxrtc.chat.voice import VoiceDetector
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.transport import Listener, ZmqTransport
from voxrtc.lifeline import die_with_parent
from voxrtc.llm.client import CompletionClient
from voxrtc.messages.media import (
    Answer,
    ClientEvent,
    ClientPacket,
    Closed,
    Dig,
    GetMediaStats,
    HangUp,
    HungUp,
    Lost,
    MediaReply,
    MediaRequest,
    MediaStats,
    Offer,
    Open,
    Opened,
    Refused,
    Resume,
    ServerEvent,
    ServerPacket,
    Taken,
)
from voxrtc.rtc import ice
from voxrtc.rtc.offer import BadOffer
from voxrtc.rtc.peer import Peer, warm_up
from voxrtc.rtc.sound import Samples
from voxrtc.rtc.tunnel import BadPacket, Tunnel
from voxrtc.settings import Settings

BACKGROUND = 0.25  # of all places, those for calls that nobody listens to
MODEL_WITHIN = 2.0  # seconds for a first model to be ready: when all processes start at once, it may come after a call

log = logging.getLogger(__name__)


class MediaServer:
    """All calls of this process, and the engines and the transcriber behind them, and who answers at a time, if anybody."""

    def __init__(
        self, engines: Fleet, transcriber: Transcriber, replier: Callable[[], Replier | None], settings: Settings
    ) -> None:
        self._engines, self._transcriber, self._replier = engines, transcriber, replier
        self._instructions = settings.instructions
        self._limit = settings.max_peers
        self._stun = settings.stun
        self._talks: dict[str, Talk | Socket] = {}  # by call; a talk may have had several
        self._tunnels: dict[str, Tunnel] = {}  # by call
        self._tally = Tally()
        self._calls = 0
        self._underruns = 0  # of talks that are over

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply | None:
        """The reply to one request, if it has one; its client can be told more. Raises nothing that a request can cause."""
        talk = self._talks.get(request.call)
        match request:
            case Offer() | Open() | Dig():
                return await self._begin(request, tell)
            case ClientEvent():
                return Taken(call=request.call, known=await self._say(request))
            case ClientPacket():
                self._take(request)
                return None
            case Lost():
                if tunnel := self._tunnels.get(request.call):
                    await tunnel.close()
                return None
            case HangUp():
                if talk:
                    await talk.close()
                return HungUp(call=request.call, known=talk is not None)
            case GetMediaStats():
                return self._stats(request.call)

    async def close(self) -> None:
        """Hang up every call."""
        await asyncio.gather(*(talk.close() for talk in self._all))

    @property
    def _all(self) -> list[Talk | Socket]:
        return list(dict.fromkeys(self._talks.values()))

    def _stats(self, call: str) -> MediaStats:
        connected = [talk for talk in self._all if talk.connected]
        return MediaStats(
            call=call,
            peers=len(connected),
            calls=self._calls,
            underruns=self._underruns + sum(talk.track.underruns for talk in self._all),
            tasks=len(asyncio.all_tasks()),
            models=self._tally.spoke(),
            playing=[clock.stream for talk in connected if (clock := talk.track.clock)],
            networks=[talk.session.network for talk in connected if talk.session.network],
        )

    async def _say(self, event: ClientEvent) -> bool:
        if tunnel := self._tunnels.get(event.call):
            tunnel.received(event.text)
            return True
        talk = self._talks.get(event.call)
        if isinstance(talk, Socket):
            await talk.take(event.text)
        return isinstance(talk, Socket)

    def _take(self, packet: ClientPacket) -> None:
        if tunnel := self._tunnels.get(packet.call):
            try:
                tunnel.took(packet.data)
            except BadPacket as error:
                tunnel.send(events.error("invalid_packet", str(error)))

    async def _begin(self, request: Offer | Open | Dig, tell: Callable[[MediaReply], None]) -> Answer | Opened | Refused:
        def refused(status: int, code: str, message: str) -> Refused:
            return Refused(call=request.call, status=status, code=code, message=message)

        try:
            if not isinstance(request, Open) and request.resume and request.resume.token:
                talk = self._kept(request.resume.token)
                if talk is None:
                    return refused(404, "session_gone", "That conversation is over. Please begin a new one.")
                return await self._connect(request, talk, tell)
            wanted = events.settings(request.session)
            async with asyncio.timeout(MODEL_WITHIN):
                await self._engines.until_known()
            choice = choose(self._engines.known, wanted.model, wanted.voice)
            if not self._place(wanted.voxrtc.background):  # asked last, so that nothing is awaited before the place is taken
                message = f"All {self._limit} places are taken. Please try again in a minute."
                return refused(503, "too_many_calls", message)
            if request.call in self._talks:
                return refused(409, "call_exists", "This call is set up already.")
            if isinstance(request, Open):
                return self._open(request.call, wanted, choice, tell)
            return await self._connect(request, self._talk(request, wanted, choice), tell)
        except (EventError, BadOffer) as error:
            return refused(400, error.code, str(error))
        except TimeoutError:
            return refused(503, "engine_lost", self._engines.why_none())

    def _place(self, background: bool) -> bool:
        """Whether there is one for somebody new; who may come back has to make room."""
        while self._full(background):
            kept = next((talk for talk in self._all if isinstance(talk, Talk) and talk.kept), None)
            if kept is None:
                return False
            kept.end()
        return True

    def _full(self, background: bool) -> bool:
        """Calls that nobody listens to take no place from people, and are few."""
        there = len(self._all)
        idle = sum(talk.session.background for talk in self._all)
        if background:
            return there >= self._limit or idle >= BACKGROUND * self._limit
        return there - idle >= self._limit

    def _kept(self, token: str) -> Talk | None:
        talks = (talk for talk in self._all if isinstance(talk, Talk))
        return next((talk for talk in talks if secrets.compare_digest(talk.token, token)), None)

    def _talk(self, request: Offer | Dig, wanted: SessionSettings, choice: Choice) -> Talk:
        guard = EchoGuard()
        session = self._session(wanted, choice, guarded(VoiceDetector(), guard))
        talk = Talk(session, request.resume is not None, self._over)
        talk.track.monitor = guard.played
        return talk

    async def _connect(self, request: Offer | Dig, talk: Talk, tell: Callable[[MediaReply], None]) -> Answer | Opened:
        """A line for a talk. Raises `BadOffer`."""
        call, seat = request.call, Seat(talk, request.call, request.resume or Resume())
        self._talks[call] = talk
        self._calls += 1
        if isinstance(request, Dig):
            seat.carrier = tunnel = self._tunnels[call] = Tunnel(seat, partial(_told, call, tell))
            tunnel.on_close = partial(self._filled, call, tell)
            tunnel.open()
            return Opened(call=call)
        seat.carrier = peer = Peer(ice.configuration(self._stun, request.relays), seat)
        if talk.fresh:
            talk.begin(seat)
        return Answer(call=call, sdp=await peer.answer(request.sdp), token=talk.token)

    def _filled(self, call: str, tell: Callable[[MediaReply], None]) -> None:
        del self._tunnels[call]
        tell(Closed(call=call))

    def _open(self, call: str, wanted: SessionSettings, choice: Choice, tell: Callable[[MediaReply], None]) -> Opened:
        session = self._session(wanted, choice, VoiceDetector())
        self._talks[call] = socket = Socket(session, partial(_told, call, tell), self._over)
        self._calls += 1
        socket.open()
        return Opened(call=call)

    def _session(self, wanted: SessionSettings, choice: Choice, detect: Callable[[Samples], float]) -> Session:
        manner = Manner(self._instructions).updated(wanted, "session")
        turns = wanted.turns(TurnSettings(eagerness="auto"))
        parts = (self._engines, self._transcriber, detect, choice, turns, self._replier(), manner, self._tally)
        return Session(*parts, background=wanted.voxrtc.background)

    def _over(self, talk: Talk | Socket) -> None:
        self._underruns += talk.track.underruns
        self._talks = {call: each for call, each in self._talks.items() if each is not talk}


def _told(call: str, tell: Callable[[MediaReply], None], message: str | bytes) -> None:
    if isinstance(message, bytes):
        tell(ServerPacket(call=call, data=message))
    else:
        tell(ServerEvent(call=call, text=message))


class Handler(Protocol):
    """Who answers requests; None: nothing is to be said."""

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply | None: ...


async def serve(server: Handler, address: str) -> None:
    """Answer requests on a ZeroMQ address until cancelled. Requests do not wait for each other."""
    listener = Listener(address, MediaRequest)
    tasks: set[asyncio.Task[None]] = set()

    async def reply(client: bytes, request: MediaRequest) -> None:
        if answer := await server.handle(request, partial(listener.send, client)):
            listener.send(client, answer)

    def take(client: bytes, request: MediaRequest) -> None:
        task = asyncio.create_task(reply(client, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    await listener.serve(take)


async def run(
    engine_addresses: dict[str, str], hearing_address: str, chat_address: str, address: str, settings: Settings
) -> None:
    """The process's life: warm up, serve, and hang up at SIGTERM or SIGINT. Engines by model, the default one first."""
    ice.prepare(settings.ice_loopback)
    engines = Fleet({model: ZmqTransport(where) for model, where in engine_addresses.items()})
    hearing = HearingClient(hearing_address, settings.transcription)
    chat: ChatEndpoint | EmbeddedReplier | None = None
    if settings.chat_url:
        chat = ChatEndpoint(settings.chat_url, settings.chat_model, settings.chat_key.get_secret_value())
    elif chat_address:
        chat = EmbeddedReplier(CompletionClient(chat_address))
    server = MediaServer(engines, hearing, lambda: chat if chat and chat.there else None, settings)
    await warm_up(ice.configuration(""))
    serving = asyncio.ensure_future(serve(server, address))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    log.info("ready on %s", address)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    await server.close()
    await engines.close()
    await hearing.close()
    if chat:
        await chat.close()


def main() -> None:
    """Read the addresses and run."""
    parser = argparse.ArgumentParser(description="The media process; settings come from the environment.")
    parser.add_argument("--engine", required=True, action="append", metavar="MODEL=ADDRESS", help="the default model first")
    parser.add_argument("--hearing", required=True, help="ZeroMQ address of speech to text")
    parser.add_argument("--chat", default="", help="ZeroMQ address of the chat model, where one comes along")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    arguments = parser.parse_args()
    settings = Settings()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s media %(levelname)s %(message)s")
    for library in ("aioice", "aiortc"):  # a dozen lines a connection
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.root.level))
    die_with_parent()
    engines = dict(engine.split("=", 1) for engine in arguments.engine)
    asyncio.run(run(engines, arguments.hearing, arguments.chat, arguments.listen, settings))


if __name__ == "__main__":
    main()
