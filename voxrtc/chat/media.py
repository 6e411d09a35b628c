"""The media process: `python -m voxrtc.chat.media --engine lark=ipc://… --hearing ipc://… --chat ipc://… --listen ipc://…`.

Settings come from the environment. One asyncio loop of peers and their conversations. It serves `MediaRequest`s; it ends
with the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
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
    GetMediaStats,
    HangUp,
    HungUp,
    MediaReply,
    MediaRequest,
    MediaStats,
    Offer,
    Open,
    Opened,
    Refused,
    ServerEvent,
    Taken,
)
from voxrtc.rtc import ice
from voxrtc.rtc.offer import BadOffer
from voxrtc.rtc.peer import Peer, warm_up
from voxrtc.rtc.sound import Samples
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
        self._peers: dict[str, Peer | Socket] = {}  # by call
        self._sessions: dict[str, Session] = {}
        self._tally = Tally()
        self._calls = 0
        self._underruns = 0  # of calls that are over

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply:
        """The reply to one request, to a client who can be told more. Raises nothing that a request can cause."""
        peer = self._peers.get(request.call)
        match request:
            case Offer() | Open():
                return await self._begin(request, tell)
            case ClientEvent():
                if isinstance(peer, Socket):
                    await peer.take(request.text)
                return Taken(call=request.call, known=isinstance(peer, Socket))
            case HangUp():
                if peer:
                    await peer.close()
                return HungUp(call=request.call, known=peer is not None)
            case GetMediaStats():
                return self._stats(request.call)

    async def close(self) -> None:
        """Hang up every call."""
        await asyncio.gather(*(peer.close() for peer in list(self._peers.values())))

    def _stats(self, call: str) -> MediaStats:
        connected = [call for call, peer in self._peers.items() if peer.state == "connected"]
        networks = (self._sessions[call].network for call in connected)
        return MediaStats(
            call=call,
            peers=len(connected),
            calls=self._calls,
            underruns=self._underruns + sum(peer.track.underruns for peer in self._peers.values()),
            tasks=len(asyncio.all_tasks()),
            models=self._tally.spoke(),
            playing=[clock.stream for call in connected if (clock := self._peers[call].track.clock)],
            networks=[network for network in networks if network],
            talking=sorted({session.model for session in self._sessions.values()}),
        )

    async def _begin(self, request: Offer | Open, tell: Callable[[MediaReply], None]) -> Answer | Opened | Refused:
        def refused(status: int, code: str, message: str) -> Refused:
            return Refused(call=request.call, status=status, code=code, message=message)

        try:
            wanted = events.settings(request.session)
            async with asyncio.timeout(MODEL_WITHIN):
                await self._engines.until_known()
            choice = choose(self._engines.known, wanted.model, wanted.voice)
            if self._full(wanted.voxrtc.background):  # asked last, so that nothing is awaited before the place is taken
                message = f"All {self._limit} places are taken. Please try again in a minute."
                return refused(503, "too_many_calls", message)
            if request.call in self._peers:
                return refused(409, "call_exists", "This call is set up already.")
            if isinstance(request, Open):
                return self._open(request.call, wanted, choice, tell)
            return await self._answer(request, wanted, choice)
        except (EventError, BadOffer) as error:
            return refused(400, error.code, str(error))
        except TimeoutError:
            return refused(503, "engine_lost", self._engines.why_none())

    def _full(self, background: bool) -> bool:
        """Calls that nobody listens to take no place from people, and are few."""
        idle = sum(session.background for session in self._sessions.values())
        if background:
            return len(self._peers) >= self._limit or idle >= BACKGROUND * self._limit
        return len(self._peers) - idle >= self._limit

    async def _answer(self, offer: Offer, wanted: SessionSettings, choice: Choice) -> Answer:
        """Raises `BadOffer`."""
        guard = EchoGuard()
        session = self._session(offer.call, wanted, choice, guarded(VoiceDetector(), guard))
        session.line = self._peers[offer.call] = peer = Peer(ice.configuration(self._stun, offer.relays), session)
        peer.track.monitor = guard.played
        self._calls += 1
        return Answer(call=offer.call, sdp=await peer.answer(offer.sdp))

    def _open(self, call: str, wanted: SessionSettings, choice: Choice, tell: Callable[[MediaReply], None]) -> Opened:
        session = self._session(call, wanted, choice, VoiceDetector())
        self._peers[call] = socket = Socket(session, lambda text: tell(ServerEvent(call=call, text=text)))
        self._calls += 1
        socket.open()
        return Opened(call=call)

    def _session(self, call: str, wanted: SessionSettings, choice: Choice, detect: Callable[[Samples], float]) -> Session:
        manner = Manner(self._instructions).updated(wanted, "session")
        turns, over = wanted.turns(TurnSettings(eagerness="auto")), partial(self._over, call)
        parts = (self._engines, self._transcriber, detect, choice, turns, self._replier(), manner, self._tally, over)
        session = Session(*parts, background=wanted.voxrtc.background)
        self._sessions[call] = session
        return session

    def _over(self, call: str) -> None:
        del self._sessions[call]
        self._underruns += self._peers.pop(call).track.underruns


class Handler(Protocol):
    """Who answers requests."""

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply: ...


async def serve(server: Handler, address: str) -> None:
    """Answer requests on a ZeroMQ address until cancelled. Requests do not wait for each other."""
    listener = Listener(address, MediaRequest)
    tasks: set[asyncio.Task[None]] = set()

    async def reply(client: bytes, request: MediaRequest) -> None:
        listener.send(client, await server.handle(request, partial(listener.send, client)))

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
