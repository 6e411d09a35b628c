"""Packets become an even flow of blocks, whatever happened to them on the way."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.rtp import RtpPacket
from hypothesis import given
from hypothesis import strategies as st

from tests.rtc.sounds import audible, packets, peak_hertz, tone
from voxrtc.rtc.microphone import (
    AHEAD,
    BLOCK,
    BLOCK_SECONDS,
    DEPTH,
    DRY,
    FASTEST,
    LONGEST_GAP,
    PATIENCE,
    RATE,
    RESTART,
    Microphone,
    Reorder,
)
from voxrtc.rtc.receiver import tap
from voxrtc.rtc.sound import FRAME, FRAME_SECONDS, RTP_RATE, TICKS, Samples


class Ear:
    """Keeps what is heard."""

    def __init__(self) -> None:
        self.blocks: list[Samples] = []

    def heard(self, block: Samples) -> None:
        assert len(block) == BLOCK
        self.blocks.append(block)

    @property
    def sound(self) -> Samples:
        return np.concatenate(self.blocks) if self.blocks else np.zeros(0, np.int16)


async def hear(sent: list[RtpPacket]) -> Samples:
    """What a microphone makes of packets, which come one after another."""
    ear = Ear()
    microphone = Microphone(ear)
    for number, packet in enumerate(sent):
        microphone.take(packet, number * FRAME_SECONDS)
    await asyncio.sleep(0)
    return ear.sound


def numbered(sequence: int) -> RtpPacket:
    return RtpPacket(payload_type=96, sequence_number=sequence % (1 << 16), timestamp=0, payload=b"x")


def numbers(reorder: Reorder, sequence: int) -> list[int]:
    return [packet.sequence_number for packet in reorder.add(numbered(sequence))]


# --- order ---


@given(st.integers(0, 65_535), st.integers(1, 60), st.randoms(use_true_random=False), st.booleans())
def test_packets_that_overtake_each_other_come_in_order(first: int, count: int, dice: random.Random, twice: bool) -> None:
    """Each is late by less than `DEPTH`; the first is there first. Numbers wrap, and packets may come twice."""
    order = [0, *sorted(range(1, count), key=lambda number: number + dice.random() * (DEPTH - 1))]
    reorder = Reorder()
    came = [
        number
        for each in order
        for number in numbers(reorder, first + each) + (numbers(reorder, first + each) if twice else [])
    ]
    assert came == [(first + number) % (1 << 16) for number in range(count)]


def test_a_packet_in_order_does_not_wait() -> None:
    reorder = Reorder()
    assert all(numbers(reorder, number) == [number] for number in range(65_500, 65_536))
    assert numbers(reorder, 0) == [0]


def test_a_lost_packet_is_waited_for_until_it_must_be_lost() -> None:
    reorder = Reorder()
    assert numbers(reorder, 0) == [0]
    waits = [numbers(reorder, number) for number in range(2, 2 + DEPTH)]
    assert waits == [[]] * DEPTH
    assert numbers(reorder, 2 + DEPTH) == list(range(2, 3 + DEPTH))
    assert numbers(reorder, 1) == []  # too late


@given(st.lists(st.integers(0, 65_535), max_size=300))
def test_any_numbers_keep_it_small(sent: list[int]) -> None:
    reorder = Reorder()
    for number in sent:
        reorder.add(numbered(number))
        assert len(reorder._waiting) <= DEPTH


def test_a_sender_that_begins_anew_is_followed() -> None:
    reorder = Reorder()
    numbers(reorder, 10)
    assert numbers(reorder, 11 + RESTART) == [11 + RESTART]
    assert numbers(reorder, 10) == [10]


# --- sound ---


async def test_a_tone_arrives_whole_and_in_time() -> None:
    sound = await hear(packets(tone(1.0)))
    assert len(sound) == RATE // BLOCK * BLOCK
    assert peak_hertz(sound[1600:], at=RATE) == pytest.approx(440, abs=2)
    assert np.abs(sound[1600:]).max() == pytest.approx(8_000, rel=0.1)


@pytest.mark.parametrize("lost", [[25], [25, 26, 27], list(range(20, 40))])
async def test_what_is_lost_is_silence_of_its_own_length(lost: list[int]) -> None:
    """And the rest stays where it was; sequence numbers and timestamps wrap amid it."""
    whole = packets(np.concatenate([tone(0.9), np.zeros(5 * FRAME, np.int16)]), 65_520, (1 << 32) - 24 * TICKS)
    sound = await hear([packet for number, packet in enumerate(whole) if number not in lost])
    loud = audible(sound)
    assert len(sound) == RATE // BLOCK * BLOCK
    assert loud[-1] / RATE == pytest.approx(0.9, abs=0.02)
    begin, end = lost[0] * FRAME_SECONDS + 0.012, (lost[-1] + 1) * FRAME_SECONDS - 0.002
    middle = sound[round(begin * RATE) : round(end * RATE)]
    assert np.abs(middle).max() < 400


async def test_a_sender_that_saves_packets_in_silence_is_heard_as_silent() -> None:
    """DTX: the sequence goes on, the timestamps jump."""
    before, after = packets(tone(0.3)), packets(tone(0.3), 15, round(0.7 * RTP_RATE))
    loud = audible(await hear(before + after))
    pause = np.diff(loud).max()
    assert pause / RATE == pytest.approx(0.4, abs=0.02)
    assert loud[-1] / RATE == pytest.approx(1.0, abs=BLOCK_SECONDS)


async def test_a_damaged_packet_is_a_lost_one() -> None:
    sent = packets(tone(0.9))
    sent[20].payload = b"\xff" * 3
    sent[21].payload = b""
    sound = await hear(sent)
    assert len(sound) / RATE == pytest.approx(0.9, abs=BLOCK_SECONDS)
    assert peak_hertz(sound[8_000:], at=RATE) == pytest.approx(440, abs=3)


async def test_a_pause_of_packets_is_silence_that_is_counted_once() -> None:
    """A network that stalls, then delivers with the sender's own gap."""
    ear = Ear()
    microphone = Microphone(ear)
    microphone.idle(5.0)  # nothing came yet
    for packet in packets(tone(0.2)):
        microphone.take(packet, 10.0)
    microphone.idle(10.0 + DRY / 2)
    microphone.idle(10.4)
    for packet in packets(tone(0.2), 10, round(0.6 * RTP_RATE)):
        microphone.take(packet, 10.5)
    await asyncio.sleep(0)
    assert len(ear.sound) / RATE == pytest.approx(0.8, abs=0.04)
    assert np.diff(audible(ear.sound)).max() / RATE == pytest.approx(0.4, abs=0.02)


async def test_a_muted_microphone_does_not_swallow_later_gaps_for_long() -> None:
    ear = Ear()
    microphone = Microphone(ear)
    for packet in packets(tone(0.1)):
        microphone.take(packet, 0.0)
    microphone.idle(60.0)  # taken away for a minute; its clock stood
    assert microphone._ahead == AHEAD
    await asyncio.sleep(0)
    assert len(ear.sound) / RATE == pytest.approx(60.1, abs=BLOCK_SECONDS)


@pytest.mark.parametrize("jump", [0, LONGEST_GAP], ids=["packets", "gaps"])
async def test_sound_is_heard_so_many_times_as_fast_as_it_is_spoken_and_the_rest_is_not(jump: int) -> None:
    """Whether it is packets that flood, or what their timestamps say; and afterwards all is well."""
    ear = Ear()
    microphone = Microphone(ear)
    said = packets(tone(1.0))
    for number in range(5_000):
        packet = said[number % len(said)]
        microphone.hear((number * (TICKS + jump)) % (1 << 32), packet.payload, number / 1_000)
    await asyncio.sleep(0)
    most = (5.0 + PATIENCE) * FASTEST + (LONGEST_GAP + TICKS) / RTP_RATE
    assert most / 2 < len(ear.sound) / RATE <= most
    assert microphone.packets == 5_000, "they came"
    ear.blocks.clear()
    for number, packet in enumerate(said):
        microphone.hear(number * TICKS, packet.payload, 10 + number * FRAME_SECONDS)
    await asyncio.sleep(0)
    assert len(audible(ear.sound)) / RATE == pytest.approx(1.0, abs=0.05)


async def test_small_packets_cost_as_much_as_usual_ones() -> None:
    ear = Ear()
    microphone = Microphone(ear)
    heard = []
    microphone._decoded = lambda payload: heard.append(payload) or np.zeros(0, np.int16)  # type: ignore[method-assign]
    for number in range(5_000):
        microphone.hear(120 * number, b"x", number / 1_000)
    assert len(heard) <= (5.0 + PATIENCE) * FASTEST / FRAME_SECONDS + 1


async def test_what_a_network_kept_for_seconds_is_heard_whole() -> None:
    ear = Ear()
    microphone = Microphone(ear)
    for packet in packets(tone(3.5)):
        microphone.take(packet, 1.0)
    await asyncio.sleep(0)
    assert len(ear.sound) / RATE == pytest.approx(3.5, abs=BLOCK_SECONDS)


# --- aiortc ---


async def test_a_receiver_gives_its_packets_away_as_they_come() -> None:
    """Fails when aiortc's receiver no longer has what `tap` replaces, or passes packets on differently."""
    taken: list[RtpPacket] = []
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    transceiver = connection.addTransceiver("audio", direction="sendrecv")
    tap(transceiver.receiver, taken.append)
    await connection.setLocalDescription(await connection.createOffer())
    codecs = {codec.payloadType: codec for codec in transceiver._codecs}
    vars(transceiver.receiver)["_RTCRtpReceiver__codecs"].update(codecs)
    for packet in packets(tone(0.1)):
        await transceiver.receiver._handle_rtp_packet(packet, arrival_time_ms=0)
    assert [packet.sequence_number for packet in taken] == [0, 1, 2, 3, 4]
    await connection.close()
