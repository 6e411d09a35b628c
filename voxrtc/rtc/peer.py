"""One browser: negotiation, its microphone, the outgoing track, the data channel, and whether it is still there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from datetime import datetime
from typing import Protocol

from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from voxrtc.rtc import garbage
from voxrtc.rtc.microphone import Microphone, MicrophoneListener, SoundPacket
from voxrtc.rtc.offer import BadOffer, checked
from voxrtc.rtc.playout import PAST
from voxrtc.rtc.receiver import received, shorten, tap
from voxrtc.rtc.sender import Sender
from voxrtc.rtc.sound import TICKS
from voxrtc.rtc.track import PlayoutTrack

LABEL = "oai-events"
# The track hands over Opus packets, so nothing else may be agreed on, whatever order the offer has.
OPUS = [codec for codec in RTCRtpSender.getCapabilities("audio").codecs if codec.mimeType == "audio/opus"]
UNSENT_MESSAGES = 256  # that may wait for the channel to open
UNSENT_BYTES = 1 << 20  # that may wait in an open channel: a browser that reads nothing is let go
CLOSE_WITHIN = 2.0  # seconds for a polite end

logger = logging.getLogger(__name__)


class PeerListener(MicrophoneListener, Protocol):
    """Who speaks with the browser."""

    def opened(self) -> None:
        """The data channel is open."""

    def received(self, text: str | bytes) -> None:
        """A message came over the data channel."""

    def closed(self) -> None:
        """The browser is gone; called once."""


class Liveness:
    """Whether a silent browser is still there. Pure; times in seconds.

    A packet is a sign of life: a message, sound, or a report of what came. When none has come for `PROBE_AFTER` the browser
    is asked, since its SCTP acknowledges what it gets even when its page never says anything (RFC 9260 section 6.2).
    Consent checks (RFC 7675) would tell too, but only after 30 s.
    """

    PROBE_AFTER, MISSED_AFTER, ANSWER_WITHIN, TICK, CONNECT_WITHIN = 1.5, 1.0, 2.5, 0.25, 10.0

    def __init__(self, now: float) -> None:
        self._heard = now
        self._asked: tuple[float, int] | None = None

    def heard(self, now: float) -> None:
        self._heard, self._asked = now, None

    def quiet(self, now: float) -> bool:
        """It is worth looking at the packet count."""
        return now - self._heard >= self.PROBE_AFTER

    def check(self, now: float, packets: int) -> str:
        """`packets` have come in so far: "alive", "ask" (send something now), "missed" or "dead"."""
        if self._asked is None:
            self._asked = now, packets
            return "ask"
        asked, before = self._asked
        if packets > before:
            self.heard(now)
            return "alive"
        waited = now - asked
        return "dead" if waited >= self.ANSWER_WITHIN else "missed" if waited >= self.MISSED_AFTER else "alive"


class Peer:
    """`await answer(offer)`, then `listener.heard` gets what the person says, `send` and `listener.received` carry events, and
    the track that is attached plays, until `close`. The track is its owner's, and may play on elsewhere.
    """

    PROBE = '{"type":"voxrtc.ping"}'

    def __init__(self, configuration: RTCConfiguration, listener: PeerListener) -> None:
        self._track: PlayoutTrack | None = None
        self._reported: datetime | None = None  # when loss was, last
        self._last = -1  # number of the last packet of the track that was detached
        self._listener = listener
        self._microphone = Microphone(listener)
        self._connection = RTCPeerConnection(configuration)
        self._transceiver = self._connection.addTransceiver("audio", direction="sendrecv")
        self._sender = Sender(self._transceiver.sender)
        self._channel: RTCDataChannel | None = None
        self._unsent: deque[str] = deque()
        self._liveness = Liveness(time.monotonic())
        self._watch: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def answer(self, offer: str) -> str:
        """The SDP answer, candidates included. Raises `BadOffer`, after which the peer is closed."""
        connection = self._connection
        connection.on("connectionstatechange", self._state_changed)
        connection.on("datachannel", self._channel_created)
        try:
            offer = checked(offer)
            self._transceiver.setCodecPreferences(OPUS)
            tap(self._transceiver.receiver, self._packet)
            await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            self._decline_the_rest()
            shorten(self._transceiver.receiver, self._packet)
            await connection.setLocalDescription(await connection.createAnswer())
        except BadOffer:
            await self.close()
            raise
        except Exception as error:  # what aiortc raises for an offer that it cannot take has no common class
            await self.close()
            message = f"This offer cannot be answered ({type(error).__name__}: {error})."
            raise BadOffer("invalid_offer", message) from error
        self._watch = asyncio.create_task(self._watch_liveness())
        return str(connection.localDescription.sdp)

    def _decline_the_rest(self) -> None:
        """Sound goes both ways on the first audio section, and on no other: a receiver costs a thread."""
        for transceiver in self._connection.getTransceivers():
            if transceiver is not self._transceiver:
                transceiver.direction = "inactive"

    @property
    def packets(self) -> int:
        """Of the microphone, that came."""
        return self._microphone.packets

    def _packet(self, packet: SoundPacket) -> None:
        self._microphone.take(packet, time.monotonic())

    @property
    def state(self) -> str:
        """aiortc's connection state: new, connecting, connected, failed or closed."""
        return str(self._connection.connectionState)

    # --- the sound ---

    def attach(self, track: PlayoutTrack) -> None:
        """Play this track; before the connection is up, or amid it."""
        self._track = self._sender.track = track

    def detach(self) -> None:
        """Play it no more. It has to be detached on its own side, too."""
        if self._track:
            self._last = self._track.last
        self._track = self._sender.track = None

    def number(self, stamp: int) -> int | None:
        """The number of the packet that went out with this RTP timestamp; None for one that did not, or long ago."""
        last = self._track.last if self._track else self._last
        behind = (self._sender.newest - stamp) % (1 << 32) // TICKS
        return last - behind if behind <= PAST else None

    # --- the data channel ---

    def send(self, text: str) -> None:
        """Send now, or once the channel opens. A browser that lets too much pile up is let go."""
        channel = self._channel
        if channel is None:
            self._unsent.append(text)
        elif channel.readyState == "open":
            channel.send(text)
        if len(self._unsent) > UNSENT_MESSAGES or (channel and channel.bufferedAmount > UNSENT_BYTES):
            logger.warning("a browser does not read its events; letting it go")
            self._end()

    def _channel_created(self, channel: RTCDataChannel) -> None:
        if channel.label != LABEL or self._channel:
            return
        self._channel = channel
        channel.on("message", self._message)
        channel.on("close", self._end)
        self._liveness.heard(time.monotonic())
        self._listener.opened()  # its first word goes before what was to be told meanwhile
        while self._unsent:
            channel.send(self._unsent.popleft())

    def _message(self, text: str | bytes) -> None:
        self._liveness.heard(time.monotonic())
        self._listener.received(text)

    # --- its end ---

    def _state_changed(self) -> None:
        if self.state in ("failed", "closed"):
            self._end()

    async def _watch_liveness(self) -> None:
        deadline = time.monotonic() + Liveness.CONNECT_WITHIN
        while self._channel is None:
            await asyncio.sleep(Liveness.TICK)
            if time.monotonic() > deadline:
                logger.info("a browser did not connect within %.0f s", Liveness.CONNECT_WITHIN)
                return self._end()
        seen = 0
        while True:
            await asyncio.sleep(Liveness.TICK)
            now = time.monotonic()
            before, seen = seen, self._came
            if seen > before:
                self._liveness.heard(now)
            self._microphone.idle(now)
            self._look_at_loss()
            verdict = self._liveness.check(now, seen) if self._liveness.quiet(now) else "alive"
            self._let(verdict)
            if verdict == "ask":
                self.send(self.PROBE)
            elif verdict == "dead":
                logger.info("a browser went away without a word")
                return self._end()

    def _look_at_loss(self) -> None:
        """What the browser's receiver reports every few seconds (RFC 3550, section 6.4.1); a page of ours tells sooner."""
        told = self._sender.report
        if self._track and told and told.timestamp != self._reported:
            self._reported = told.timestamp
            self._track.lost(told.fractionLost / 256)

    def _let(self, verdict: str) -> None:
        """Do not play to nobody: what went out before that was noticed, a line that follows may play once more."""
        if self._track and verdict == "missed":
            self._track.pause()
        elif self._track and verdict == "alive":
            self._track.go()

    @property
    def _came(self) -> int:
        """DTLS and SRTP packets received so far."""
        sctp = self._connection.sctp
        transports = {self._transceiver.receiver.transport} | ({sctp.transport} if sctp else set())
        return sum(map(received, transports))

    def _end(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())

    async def close(self) -> None:
        """End the call; returns when nothing of it is left. May be called again."""
        self._end()
        assert self._closing
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._watch:
            self._watch.cancel()
        self.detach()
        self._listener.closed()
        try:
            await asyncio.wait_for(self._connection.close(), CLOSE_WITHIN)
        except TimeoutError:
            logger.warning("a connection did not close within %.0f s", CLOSE_WITHIN)
        except Exception:  # of aiortc's, half set up; whoever waits for the end is not to wait for ever
            logger.warning("a connection did not close well", exc_info=True)
        garbage.closed()


async def warm_up(configuration: RTCConfiguration) -> None:
    """Connect one peer to another in this process: the first connection costs 30 ms more than the next."""
    listener = _Nobody()
    peer, browser = Peer(configuration, listener), RTCPeerConnection(configuration)
    channel = browser.createDataChannel(LABEL)
    browser.addTransceiver("audio", direction="recvonly")
    try:
        await browser.setLocalDescription(await browser.createOffer())
        answer = await peer.answer(browser.localDescription.sdp)
        opened = asyncio.Event()
        channel.on("open", opened.set)
        await browser.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        await asyncio.wait_for(opened.wait(), 2.0)
    except TimeoutError:
        logger.warning("no connection from this machine to itself: its firewall may be in the way of browsers too")
    finally:
        await peer.close()
        await browser.close()


class _Nobody:
    """A listener that is only there to warm up."""

    def opened(self) -> None: ...
    def received(self, text: str | bytes) -> None: ...
    def heard(self, block: object) -> None: ...
    def closed(self) -> None: ...
