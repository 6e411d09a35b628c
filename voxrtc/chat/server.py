"""All talks of a media process: who may begin one, which line is whose, and what the web process wants of them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial

from voxrtc import logs
from voxrtc.asr.client import Transcriber
from voxrtc.chat import events
from voxrtc.chat.choice import Choice, choose
from voxrtc.chat.dictation import write_down
from voxrtc.chat.drain import drain
from voxrtc.chat.echo import EchoGuard, guarded
from voxrtc.chat.events import EventError
from voxrtc.chat.manner import Manner
from voxrtc.chat.places import make_room
from voxrtc.chat.reply import Replier
from voxrtc.chat.session import Session
from voxrtc.chat.session_settings import SessionSettings
from voxrtc.chat.socket import Socket
from voxrtc.chat.talk import Seat, Talk
from voxrtc.chat.tally import Tally
from voxrtc.chat.tokens import new_token
from voxrtc.chat.turns import TurnSettings
from voxrtc.chat.voice import VoiceDetector
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.engine import Reference
from voxrtc.messages.media import (
    FULL,
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
    Resume,
    ServerEvent,
    ServerPacket,
    Taken,
    Tell,
    Told,
    Transcribe,
    VoicesUsed,
)
from voxrtc.rtc import ice
from voxrtc.rtc.offer import BadOffer
from voxrtc.rtc.peer import Peer
from voxrtc.rtc.sound import Samples
from voxrtc.rtc.tunnel import BadPacket, Tunnel
from voxrtc.settings import Settings
from voxrtc.stalls import Stood

KINDS = {"Offer": "over WebRTC", "Dig": "through a tunnel", "Open": "over a WebSocket"}
MODEL_WITHIN = 2.0  # seconds for a first model to be ready: when all processes start at once, it may come after a call

log = logging.getLogger(__name__)


class MediaServer:
    """All calls of this process, and the engines and the transcriber behind them, and who answers at a time, if anybody."""

    def __init__(
        self,
        engines: Fleet,
        transcriber: Transcriber,
        replier: Callable[[], Replier | None],
        settings: Settings,
        stood: Callable[[], Stood] = Stood,
        name: str = "media",
    ) -> None:
        """`name` is the process', by which it is found again; `stood` tells of its event loop."""
        self._name = name
        self._engines, self._transcriber, self._replier, self._stood = engines, transcriber, replier, stood
        self._instructions = settings.instructions
        self._limit = settings.max_peers
        self._stun = settings.stun
        self._talks: dict[str, Talk | Socket] = {}  # by call; a talk may have had several
        self._tunnels: dict[str, Tunnel] = {}  # by call
        self._tell: dict[str, Callable[[MediaReply], None]] = {}  # who asked for it, by call
        self._recordings: dict[str, Reference] = {}  # by the voice's id
        self._tally = Tally()
        self._calls = 0
        self._underruns = 0  # of talks that are over

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply | None:
        """The reply to one request, if it has one; its client can be told more. Raises nothing that a request can cause."""
        talk = self._talks.get(request.call)
        logs.about(call=request.call, **({"session": talk.session.id} if talk else {}))
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
            case Tell():
                if talk:
                    talk.send(request.text)
                return Told(call=request.call)
            case HangUp():
                if talk:
                    await talk.close()
                return HungUp(call=request.call, known=talk is not None)
            case Drain():
                await drain(self._all, request.seconds)
                return Noted(call=request.call)
            case GetMediaStats():
                return self._stats(request.call)
            case KeepVoice():
                self._recordings[request.call] = request.reference
                return Noted(call=request.call)
            case DropVoice():
                self._drop_voice(request.call)
                return Noted(call=request.call)
            case GetVoices():
                used = {talk.session.voice for talk in self._all} & self._recordings.keys()
                return VoicesUsed(call=request.call, voices=sorted(used))
            case Transcribe():
                return await write_down(self._transcriber, request)

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
            talking=sorted({talk.session.model for talk in self._all if not talk.session.background}),
            kept=sum(isinstance(talk, Talk) and talk.kept for talk in self._all),
            stood=self._stood(),
        )

    def _drop_voice(self, voice: str) -> None:
        if reference := self._recordings.pop(voice, None):
            for talk in self._all:
                talk.session.lose_voice(voice)
            self._engines.forget_voice(reference.digest)  # here, too: behind what these sessions asked for

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
            choice = choose(self._engines.known, wanted.model, wanted.voice, recorded=self._recordings)
            # Asked last, so that nothing is awaited before the place is taken
            if not make_room(lambda: self._all, self._limit, wanted.voxrtc.background):
                return refused(503, FULL, "All places are taken. Please try again in a minute.")
            if request.call in self._talks:
                return refused(409, "call_exists", "This call is set up already.")
            kind, level = type(request).__name__, logging.DEBUG if wanted.voxrtc.background else logging.INFO
            log.log(level, "a call begins, %s, with %s", KINDS[kind], choice.model)
            if isinstance(request, Open):
                return self._open(request.call, wanted, choice, tell)
            return await self._connect(request, self._talk(request, wanted, choice), tell)
        except (EventError, BadOffer) as error:
            return refused(400, error.code, str(error))
        except TimeoutError:
            return refused(503, "engine_lost", self._engines.why_none())
        except Exception:  # whoever calls is waiting for an answer
            log.exception("a call could not be set up")
            return refused(500, "internal_error", "This call failed inside the server; its log says why.")

    def _kept(self, token: str) -> Talk | None:
        talks = (talk for talk in self._all if isinstance(talk, Talk))
        return next((talk for talk in talks if secrets.compare_digest(talk.token.encode(), token.encode())), None)

    def _talk(self, request: Offer | Dig, wanted: SessionSettings, choice: Choice) -> Talk:
        guard = EchoGuard()
        session = self._session(wanted, choice, guarded(VoiceDetector(), guard))
        talk = Talk(session, new_token(self._name) if request.resume else "", self._over)
        talk.track.monitor = guard.played
        return talk

    async def _connect(self, request: Offer | Dig, talk: Talk, tell: Callable[[MediaReply], None]) -> Answer | Opened:
        """A line for a talk. Raises `BadOffer`."""
        call, seat = request.call, Seat(talk, request.call, request.resume or Resume())
        self._forget_lines(talk)
        if isinstance(request, Dig):
            seat.carrier = tunnel = Tunnel(seat, partial(_told, call, tell))
            tunnel.on_close = partial(self._filled, call, tell)
            self._note(call, talk, tell)
            self._tunnels[call] = tunnel
            tunnel.open()
            return Opened(call=call)
        seat.carrier = peer = Peer(ice.configuration(self._stun, request.relays), seat)
        self._note(call, talk, tell)
        talk.expect(seat)
        return Answer(call=call, sdp=await peer.answer(request.sdp), token=talk.token)

    def _note(self, call: str, talk: Talk | Socket, tell: Callable[[MediaReply], None]) -> None:
        """It has a line now, which will end; one that could not be made would take a place for ever."""
        self._talks[call], self._tell[call] = talk, tell
        self._calls += 1

    def _forget_lines(self, talk: Talk) -> None:
        """Those that are over and no longer matter; but the first, by which its place is known."""
        for call in [call for call, each in self._talks.items() if each is talk][1:]:
            if call not in talk.calls:
                self._forget(call)

    def _forget(self, call: str) -> None:
        del self._talks[call]
        if tell := self._tell.pop(call, None):
            tell(Over(call=call))

    def _filled(self, call: str, tell: Callable[[MediaReply], None]) -> None:
        del self._tunnels[call]
        tell(Closed(call=call))

    def _open(self, call: str, wanted: SessionSettings, choice: Choice, tell: Callable[[MediaReply], None]) -> Opened:
        socket = Socket(self._session(wanted, choice, VoiceDetector()), partial(_told, call, tell), self._over)
        self._note(call, socket, tell)
        socket.open()
        return Opened(call=call)

    def _session(self, wanted: SessionSettings, choice: Choice, detect: Callable[[Samples], float]) -> Session:
        manner = Manner(self._instructions).updated(wanted, "session")
        turns = wanted.turns(TurnSettings(eagerness="auto"))
        background = wanted.voxrtc.background
        tally = Tally() if background else self._tally  # what nobody hears is no example
        logs.about(session=(id := events.new_id("sess")))
        parts = (self._engines, self._transcriber, detect, choice, turns, self._replier(), manner, tally)
        return Session(*parts, self._recordings, ours=wanted.voxrtc, id=id)

    def _over(self, talk: Talk | Socket) -> None:
        self._underruns += talk.track.underruns
        for call in [call for call, each in self._talks.items() if each is talk]:
            self._forget(call)
        level = logging.DEBUG if talk.session.background else logging.INFO
        log.log(level, "a call is over", extra={"session": talk.session.id})


def _told(call: str, tell: Callable[[MediaReply], None], message: str | bytes) -> None:
    if isinstance(message, bytes):
        tell(ServerPacket(call=call, data=message))
    else:
        tell(ServerEvent(call=call, text=message))
