"""A browser's Opus packets on their way from the socket to its microphone, in one call and without a task.

aiortc puts each datagram into a queue, from which a task decrypts, parses, routes and counts it: 80 us a packet, and then its
jitter buffer waits and a thread decodes. Here a packet of a source that aiortc knows goes straight to the microphone. aiortc
still gets all others, a source's first packets among them, and tells the browser what was lost (RTCP). This is the only
place that reaches into its receiver.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import pylibsrtp
from aiortc import RTCDtlsTransport, RTCRtpReceiver
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtcdtlstransport import State
from aiortc.rtp import RtpPacket, is_rtcp

from voxrtc.rtc.microphone import SoundPacket

HEADER = struct.Struct("!BBHII")  # version and flags, marker and payload type, number, timestamp, source (RFC 3550, 5.1)
PADDED, EXTENDED, SOURCES, TYPE = 0x20, 0x10, 0x0F, 0x7F
WORDS = struct.Struct("!H")
PRIVATE = "_RTCRtpReceiver__"
CAME = "_RTCDtlsTransport__rx_packets"

Take = Callable[[SoundPacket], None]


@dataclass(slots=True)
class Arrived:
    """A `SoundPacket`."""

    sequence_number: int
    timestamp: int
    payload: bytes


def tap(receiver: RTCRtpReceiver, take: Take) -> None:
    """Have a receiver's packets go to `take` as they come, in place of its jitter buffer. Its decoder's thread then sleeps."""
    name = PRIVATE + "jitter_buffer"
    assert isinstance(vars(receiver)[name], JitterBuffer)
    setattr(receiver, name, _Tap(take))


class _Tap:
    """A jitter buffer, as far as a receiver knows, that never has a frame to decode."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def add(self, packet: RtpPacket) -> tuple[bool, JitterFrame | None]:
        self._take(packet)
        return False, None


def shorten(receiver: RTCRtpReceiver, take: Take) -> None:
    """From now on packets of sources that the receiver knows go to `take` right from the socket. To be called once it is known
    which transport is whose: after the negotiation."""
    dtls = receiver.transport
    connection = dtls.transport._connection
    codecs, sources = (vars(receiver)[PRIVATE + name] for name in ("codecs", "remote_streams"))
    counts = vars(dtls)
    assert CAME in counts
    long_way = connection.data_received

    def data_received(data: bytes, component: int) -> None:
        if not data:
            return  # aiortc would end the call
        if len(data) < HEADER.size or not 0x80 <= data[0] < 0xC0 or is_rtcp(data) or dtls._state is not State.CONNECTED:
            return long_way(data, component)
        _, kind, number, stamp, source = HEADER.unpack_from(data)  # which are sent in the clear
        if source not in sources or kind & TYPE not in codecs:
            return long_way(data, component)
        try:
            packet = Arrived(number, stamp, _payload(dtls._rx_srtp.unprotect(data)))
        except (pylibsrtp.Error, ValueError, struct.error):
            return  # not from our browser, or garbled
        counts[CAME] += 1
        sources[source].add(packet)
        take(packet)

    connection.data_received = data_received  # type: ignore[method-assign]


def received(transport: RTCDtlsTransport) -> int:
    """DTLS and SRTP packets so far. (To ask a connection's `getStats` costs 0.2 ms.)"""
    count: int = vars(transport)[CAME]
    return count


def _payload(packet: bytes) -> bytes:
    """Without header, extension and padding. Raises `ValueError` or `struct.error` when they do not fit."""
    first, end = packet[0], len(packet)
    begin = HEADER.size + 4 * (first & SOURCES)
    if first & EXTENDED:
        begin += 4 + 4 * WORDS.unpack_from(packet, begin + 2)[0]
    if first & PADDED:
        end -= packet[-1]
    if begin > end:
        raise ValueError("an RTP packet that ends before it begins")
    return packet[begin:end]
