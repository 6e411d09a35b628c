"""Opus packets of a track on their way to one browser: RTP, SRTP, socket, in one call and without a task.

aiortc's sender has a task a track, which wakes up, makes an object of each packet, serialises it and awaits its way down to
the socket: 60 us a packet, most of them Python's. Here all tracks are served in one turn of the loop (`beat`), 20 us a packet.
aiortc still negotiates, sends the reports (RTCP) and ends the sender; this is the only place that reaches into it.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from typing import Any

from aiortc import RTCRtpSender
from aiortc.rtcdtlstransport import State
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from aiortc.rtp import HeaderExtensions
from aiortc.stats import RTCRemoteInboundRtpStreamStats

from voxrtc.rtc.beat import beat
from voxrtc.rtc.sound import TICKS
from voxrtc.rtc.track import PlayoutTrack

HEADER = struct.Struct("!BBHII")  # version and extension, marker and payload type, number, timestamp, source (RFC 3550, 5.1)
EXTENSION = struct.Struct("!HH")
VERSION, EXTENDED, MARKED = 0x80, 0x90, 0x80
PRIVATE = "_RTCRtpSender__"
USED = ("rtp_started", "rtp_exited", "rtp_header_extensions_map", "mid", "stats")
COUNTED = ("ntp_timestamp", "rtp_timestamp", "packet_count", "octet_count")
NTP_TIME, RTP_TIME, PACKETS, OCTETS = (PRIVATE + name for name in COUNTED)
# Seconds to add for those of NTP. Once: browsers put sound in order by these times, which must not jump when the machine's
# clock is set (RFC 3550, section 6.4.1, allows for a clock that only runs on).
NTP = 2_208_988_800 + time.time() - time.monotonic()


class Sender:
    """Sends what `track` plays, from when aiortc starts its sender until it stops it."""

    def __init__(self, sender: RTCRtpSender) -> None:
        self.track: PlayoutTrack | None = None
        self._sender, self._state = sender, vars(sender)
        missing = [name for name in USED + COUNTED if PRIVATE + name not in self._state]
        assert not missing, f"aiortc's sender has changed: {missing}"
        # As aiortc's own: numbers begin in the lower half, where a decryption that missed some still finds its way.
        self._number, self._origin = random.getrandbits(15), random.getrandbits(32)
        self.newest = self._origin  # RTP timestamp of the last packet
        sender._run_rtp = self._run  # type: ignore[method-assign]

    async def _run(self, codec: RTCRtpCodecParameters) -> None:
        """What aiortc runs as its sender's task, and cancels."""
        self._get("rtp_started").set()
        assert codec.payloadType is not None
        self._type = MARKED | codec.payloadType
        profile, value = self._get("rtp_header_extensions_map").set(HeaderExtensions(mid=self._get("mid")))
        self._first, self._extension = VERSION, b""
        if value:
            self._first, self._extension = EXTENDED, EXTENSION.pack(profile, len(value) // 4) + value
        try:
            self._step(time.monotonic())
            beat().join(self._step)
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            pass
        finally:
            beat().leave(self._step)
            self._get("rtp_exited").set()

    @property
    def report(self) -> RTCRemoteInboundRtpStreamStats | None:
        """The browser's last one, of what came of it all. (aiortc's `getStats` makes a dozen objects to tell.)"""
        reports = self._get("stats").values()
        return next((each for each in reports if isinstance(each, RTCRemoteInboundRtpStreamStats)), None)

    def _step(self, now: float) -> None:
        track = self.track
        if track and (payload := track.due(now, self._again)) is not None:
            self._send(payload, (self._origin + track.last * TICKS) % (1 << 32))

    def _again(self) -> None:
        """What was due is encoded now."""
        self._step(time.monotonic())

    def _send(self, payload: bytes, stamp: int) -> None:
        header = HEADER.pack(self._first, self._type, self._number, stamp, self._sender._ssrc)
        self._number = (self._number + 1) % (1 << 16)
        self.newest = stamp
        self._count(len(payload), stamp)
        dtls = self._sender.transport
        pair = dtls.transport._connection._nominated.get(1)
        if pair and dtls._state is State.CONNECTED:
            packet = dtls._tx_srtp.protect(header + self._extension + payload)
            pair.protocol.transport.sendto(packet, pair.remote_addr)

    def _count(self, size: int, stamp: int) -> None:
        """What aiortc's reports tell the browser."""
        state = self._state
        state[RTP_TIME] = stamp
        state[NTP_TIME] = int((time.monotonic() + NTP) * (1 << 32))
        state[PACKETS] += 1
        state[OCTETS] += size

    def _get(self, name: str) -> Any:
        return self._state[PRIVATE + name]
