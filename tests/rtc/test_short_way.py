"""Packets between socket, track and microphone without the tasks of aiortc: what a browser sees; whether aiortc is the same."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct

import pytest
from aioice.turn import TurnTransport
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.rtcrtpreceiver import RTCRtpReceiver
from aiortc.rtp import HeaderExtensions, HeaderExtensionsMap, RtpPacket
from hypothesis import given
from hypothesis import strategies as st

from tests.rtc.sounds import audible
from tests.rtc.test_peer import call, said, speak
from tests.waiting import PATIENCE
from voxrtc.rtc.receiver import _payload, tap
from voxrtc.rtc.sender import Sender
from voxrtc.rtc.sound import RATE, TICKS


async def test_what_goes_out_is_in_order_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And aiortc serialises none of it."""
    serialised: list[RtpPacket] = []
    monkeypatch.setattr(RtpPacket, "serialize", lambda packet, _: serialised.append(packet))
    async with call() as (peer, ear, browser):
        came: list[RtpPacket] = []
        tap(browser.connection.getTransceivers()[0].receiver, came.append)
        await speak(ear, 0.4)
        await asyncio.wait_for(ear.played.wait(), PATIENCE)
        peer.detach()
        await asyncio.sleep(0.05)
        (sent,) = [each for each in (await peer._transceiver.sender.getStats()).values() if each.type == "outbound-rtp"]
    assert len(came) >= 20
    pairs = list(itertools.pairwise(came))
    assert {(then.sequence_number - now.sequence_number) % (1 << 16) for now, then in pairs} == {1}
    assert {(then.timestamp - now.timestamp) % (1 << 32) for now, then in pairs} == {TICKS}
    assert {(packet.extensions.mid, packet.payload_type, packet.ssrc) for packet in came} == {("0", 96, sent.ssrc)}
    assert sent.packetsSent >= len(came)
    assert sent.bytesSent >= sum(len(packet.payload) for packet in came)
    assert not serialised


async def test_a_relay_is_sent_to_as_well() -> None:
    """aioice's transport through a relay can do no more than this."""
    transport = TurnTransport.__new__(TurnTransport)
    async with call() as (peer, ear, browser):
        pair = peer._transceiver.sender.transport.transport._connection._nominated[1]
        sent: list[bytes] = []
        straight = pair.protocol.transport
        transport.sendto = lambda data, address: (sent.append(data), straight.sendto(data, address))  # type: ignore[method-assign]
        pair.protocol.transport = transport
        await speak(ear, 0.2)
        await asyncio.wait_for(ear.played.wait(), PATIENCE)
        await asyncio.sleep(0.2)  # aiortc's jitter buffer
        pair.protocol.transport = straight
        assert len(sent) >= 10
        assert len(audible(browser.sound)) > 0.15 * RATE


async def test_what_comes_in_is_counted_and_only_first_packets_go_aiortcs_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_way: list[RtpPacket] = []
    handle = RTCRtpReceiver._handle_rtp_packet

    async def handled(receiver: RTCRtpReceiver, packet: RtpPacket, arrival_time_ms: int) -> None:
        long_way.append(packet)
        await handle(receiver, packet, arrival_time_ms)

    monkeypatch.setattr(RTCRtpReceiver, "_handle_rtp_packet", handled)
    async with call("sendrecv") as (peer, ear, browser):
        before = peer._came
        browser.talk(48_000, "mono")
        await said(ear, 0.6)
        receiver = peer._transceiver.receiver
        mine = [packet for packet in long_way if packet.ssrc == browser._sender._ssrc]
        assert 1 <= len(mine) <= 3
        (came,) = [each for each in (await receiver.getStats()).values() if each.type == "inbound-rtp"]
        assert came.packetsReceived == peer.packets >= 30
        assert came.packetsLost == 0
        assert peer._came - before >= 30, "they are signs of life"


async def test_what_is_garbled_or_a_strangers_is_dropped() -> None:
    async with call("sendrecv") as (peer, ear, browser):
        browser.talk(48_000, "mono")
        await said(ear, 0.2)
        connection = peer._transceiver.receiver.transport.transport._connection
        forged = RtpPacket(
            payload_type=96, sequence_number=7, timestamp=9, ssrc=browser._sender._ssrc, payload=b"sound"
        ).serialize()
        packets = peer.packets
        for data in (b"", b"\x80", b"\x80\x60" + bytes(9), forged, forged[:14], forged + bytes(1400)):
            connection.data_received(data, 1)
        assert peer.packets == packets
        before = len(ear.blocks)
        await said(ear, before * 0.032 + 0.2)
        assert peer.state == "connected"


@given(
    st.binary(max_size=40),
    st.lists(st.integers(0, (1 << 32) - 1), max_size=15),
    st.text("abc", min_size=0, max_size=30),
    st.integers(0, 9),
)
def test_a_payload_is_what_was_put_in(payload: bytes, sources: list[int], mid: str, padding: int) -> None:
    packet = RtpPacket(payload_type=96, payload=payload)
    packet.csrc, packet.padding_size = sources, padding
    packet.extensions = HeaderExtensions(mid=mid or None)
    extensions = HeaderExtensionsMap()
    vars(extensions)["_HeaderExtensionsMap__ids"].mid = 1
    assert _payload(packet.serialize(extensions)) == payload


@given(st.binary(min_size=12, max_size=40))
def test_no_packet_is_too_strange(data: bytes) -> None:
    with contextlib.suppress(ValueError, struct.error):
        assert len(_payload(data)) <= len(data) - 12


async def test_a_sender_that_has_changed_is_noticed() -> None:
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    sender = connection.addTransceiver("audio").sender
    Sender(sender)
    del vars(sender)["_RTCRtpSender__packet_count"]
    with pytest.raises(AssertionError, match="packet_count"):
        Sender(sender)
    await connection.close()


async def test_a_browser_reports_what_it_lost() -> None:
    async with call() as (peer, ear, _):
        await speak(ear, 0.1)
        async with asyncio.timeout(PATIENCE):
            while peer._sender.report is None:
                await asyncio.sleep(0.05)
        assert peer._sender.report.fractionLost == 0
        (known,) = [each for each in (await peer._transceiver.sender.getStats()).values() if each.type == "remote-inbound-rtp"]
        assert peer._sender.report is known
