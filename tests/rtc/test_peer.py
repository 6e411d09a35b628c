"""A peer against a real WebRTC stack (aiortc), over loopback."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from aiortc.rtp import RtpPacket

from tests.rtc.browser import Browser
from tests.rtc.sounds import audible, lasts, peak_hertz, tone
from tests.rtc.test_playout import Told
from tests.waiting import PATIENCE, until
from voxrtc.rtc import ice
from voxrtc.rtc.ice import DATA_BYTES, configuration
from voxrtc.rtc.microphone import BLOCK_SECONDS, RATE
from voxrtc.rtc.offer import BadOffer
from voxrtc.rtc.peer import UNSENT_BYTES, UNSENT_MESSAGES, Liveness, Peer, warm_up
from voxrtc.rtc.playout import Clock
from voxrtc.rtc.receiver import tap
from voxrtc.rtc.sound import TICKS, Samples
from voxrtc.rtc.track import PlayoutTrack


class Ear(Told):
    """A `PeerListener` that remembers, and the track that its peer plays."""

    def __init__(self) -> None:
        super().__init__()
        self.track = PlayoutTrack(self)
        self.messages: list[str | bytes] = []
        self.blocks: list[Samples] = []
        self.open, self.over, self.played = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.closings = 0

    def opened(self) -> None:
        self.open.set()

    def received(self, text: str | bytes) -> None:
        self.messages.append(text)

    def heard(self, block: Samples) -> None:
        self.blocks.append(block)

    def stopped(self, clock: Clock) -> None:
        super().stopped(clock)
        self.played.set()

    def closed(self) -> None:
        self.closings += 1
        self.over.set()


def peer_of(ear: Ear, stun: str = "") -> Peer:
    peer = Peer(configuration(stun), ear)
    peer.attach(ear.track)
    return peer


@asynccontextmanager
async def call(direction: str = "recvonly", early: str = "") -> AsyncIterator[tuple[Peer, Ear, Browser]]:
    """A connected peer and its browser."""
    ear, browser = Ear(), Browser(direction)
    peer = peer_of(ear)
    if early:
        peer.send(early)
    try:
        await browser.accept(await peer.answer(await browser.offer()))
        yield peer, ear, browser
    finally:
        await browser.close()
        await peer.close()


async def speak(ear: Ear, seconds: float) -> None:
    utterance = await ear.track.begin("a")
    await utterance.write(tone(seconds, 24_000).tobytes(), 24_000)
    await utterance.finish()


async def test_a_tone_arrives_whole() -> None:
    async with call() as (_, ear, browser):
        await speak(ear, 0.8)
        await asyncio.wait_for(ear.played.wait(), PATIENCE)
        await until(lambda: lasts(browser.sound) > 0.78)  # aiortc's jitter buffer holds some
        loud = audible(browser.sound)
        assert lasts(browser.sound) == pytest.approx(0.8, abs=0.02)
        assert peak_hertz(browser.sound[loud[0] : loud[-1]]) == pytest.approx(440, abs=3)
        assert ear.track.underruns == 0


async def test_messages_go_both_ways_and_wait_for_the_channel() -> None:
    async with call(early='{"type":"early"}') as (peer, ear, browser):
        await browser.event("early")
        peer.send('{"type":"later"}')
        await browser.event("later")
        browser.send("hello")
        await until(lambda: ear.messages)
        assert ear.messages == ['{"type": "hello"}']


async def test_who_speaks_before_the_channel_is_open_hears_of_it_after_the_greeting() -> None:
    """Stock clients wait for `session.created`, whatever their microphone has brought by then."""
    ear, browser = Ear(), Browser()
    peer = peer_of(ear)
    ear.opened = lambda: peer.send('{"type":"greeting"}')  # type: ignore[method-assign]
    peer.send('{"type":"early"}')
    try:
        await browser.accept(await peer.answer(await browser.offer()))
        await browser.event("early")
        assert [event["type"] for event in browser.events] == ["greeting", "early"]
    finally:
        await browser.close()
        await peer.close()


async def test_messages_that_wait_are_bounded() -> None:
    ear = Ear()
    peer = peer_of(ear)
    for _ in range(UNSENT_MESSAGES + 1):
        peer.send("x")
    await asyncio.wait_for(ear.over.wait(), PATIENCE)


async def test_a_browser_that_reads_nothing_is_bounded_and_let_go(caplog: pytest.LogCaptureFixture) -> None:
    async def nothing(data: bytes) -> None: ...

    async with call() as (peer, ear, browser):
        browser.connection.sctp._handle_data = nothing
        sent = 0
        while not ear.over.is_set():
            peer.send("x" * 10_000)
            sent += 10_000
            await asyncio.sleep(0)
            assert sent < 1.1 * UNSENT_BYTES
    assert "does not read its events" in caplog.text


async def said(ear: Ear, seconds: float) -> Samples:
    """What was heard, once there is so much of it."""
    await until(lambda: len(ear.blocks) * BLOCK_SECONDS >= seconds)
    return np.concatenate(ear.blocks)


@pytest.mark.parametrize("layout", ["mono", "stereo"])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
async def test_a_microphone_of_any_kind_is_heard(rate: int, layout: str) -> None:
    """One that comes late, too: it begins when the call is up."""
    async with call("sendrecv") as (_, ear, browser):
        browser.talk(rate, layout)
        sound = await said(ear, 0.5)
        assert peak_hertz(sound[RATE // 10 :], at=RATE) == pytest.approx(440, abs=6)
        level = 8_000 if layout == "stereo" else 8_000 / 2**0.5  # aiortc's sender shares a mono sound among two channels
        assert np.abs(sound[RATE // 10 :]).max() == pytest.approx(level, rel=0.1)


async def test_no_microphone_is_no_sound_and_no_thread() -> None:
    async with call("recvonly") as (peer, ear, browser):
        assert [t.currentDirection for t in browser.connection.getTransceivers()] == ["recvonly"]
        assert [t.currentDirection for t in peer._connection.getTransceivers()] == ["sendonly"]
        assert not ear.blocks


async def test_a_microphone_that_falls_silent_is_heard_as_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A track that the browser takes away sends nothing; a turn must end all the same."""
    monkeypatch.setattr(Liveness, "TICK", 0.02)
    async with call("sendrecv") as (_, ear, browser):
        browser.talk(48_000, "mono")
        await said(ear, 0.2)
        browser.hush()
        before = len(ear.blocks) * BLOCK_SECONDS
        silence = (await said(ear, before + 0.6))[-RATE // 4 :]
        assert np.abs(silence).max() < 10


async def test_a_listener_that_fails_does_not_end_the_call() -> None:
    async with call("sendrecv") as (peer, ear, browser):
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        hear, ear.heard = ear.heard, lambda block: 1 / 0  # type: ignore[method-assign]
        browser.talk(48_000, "mono")
        await asyncio.sleep(0.2)
        ear.heard = hear  # type: ignore[method-assign]
        await said(ear, 0.1)
        assert peer.state == "connected"


async def test_only_opus_is_agreed_on() -> None:
    browser = Browser()
    peer = peer_of(Ear())
    offer = await browser.offer()
    reordered = offer.replace("SAVPF 96 9 0 8", "SAVPF 0 8 9 96")
    assert reordered != offer
    answer = await peer.answer(reordered)
    assert "PCMU" not in answer
    assert "opus/48000/2" in answer
    await browser.close()
    await peer.close()


async def test_a_bad_offer_leaves_nothing_behind() -> None:
    ear = Ear()
    before = asyncio.all_tasks()
    with pytest.raises(BadOffer):
        await peer_of(ear).answer("v=0\r\nnonsense")
    assert ear.closings == 1
    assert asyncio.all_tasks() - before == set()


async def test_an_offer_without_candidates_connects() -> None:
    """The page sends its offer at once; its address is learnt from its first check."""
    ear, browser = Ear(), Browser()
    peer = peer_of(ear)
    offer = "".join(line for line in (await browser.offer()).splitlines(keepends=True) if "candidate" not in line)
    await browser.accept(await peer.answer(offer))
    await browser.close()
    await asyncio.wait_for(ear.over.wait(), PATIENCE)


async def test_a_stun_server_that_says_nothing_does_not_hold_the_answer_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow connect behind blackholed STUN (aiortc 1183): its own limit is 5 s."""
    monkeypatch.setattr(ice, "STUN_WITHIN", 0.1)
    ice.prepare(loopback=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        browser = Browser()
        peer = peer_of(Ear(), f"stun:127.0.0.1:{nobody.getsockname()[1]}")
        offer = await browser.offer()
        answer = await asyncio.wait_for(peer.answer(offer), 1.0)
        await browser.accept(answer)
        await browser.close()
        await peer.close()


async def test_a_closed_call_is_seen_at_once_and_told_once() -> None:
    async with call() as (peer, ear, browser):
        await browser.close()
        await asyncio.wait_for(ear.over.wait(), PATIENCE)
        await peer.close()
        assert ear.closings == 1
        assert peer.state == "closed"


async def test_a_browser_that_vanishes_frees_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROBE_AFTER", "ANSWER_WITHIN", "TICK"):
        monkeypatch.setattr(Liveness, name, getattr(Liveness, name) / 10)
    async with call() as (_, ear, browser):
        browser.vanish()
        await asyncio.wait_for(ear.over.wait(), PATIENCE)


async def test_a_browser_that_says_nothing_but_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own clients do not ping: what acknowledges our question is alive."""
    for name in ("PROBE_AFTER", "ANSWER_WITHIN", "TICK"):
        monkeypatch.setattr(Liveness, name, getattr(Liveness, name) / 10)
    async with call() as (peer, ear, browser):
        await browser.event("voxrtc.ping")
        await asyncio.sleep(1.0)
        assert peer.state == "connected"
        assert not ear.over.is_set()


async def test_a_call_that_never_connects_frees_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Liveness, "CONNECT_WITHIN", 0.3)
    ear, browser = Ear(), Browser()
    await peer_of(ear).answer(await browser.offer())
    await asyncio.wait_for(ear.over.wait(), PATIENCE)
    await browser.close()


def test_liveness_is_decided_within_5_s() -> None:
    """The worst case: silence begins right after a check."""
    liveness, now, last = Liveness(0.0), 0.0, 0.0
    liveness.heard(last)
    verdict = "alive"
    while verdict != "dead":
        now += Liveness.TICK
        verdict = liveness.check(now, packets=7) if liveness.quiet(now) else "alive"
    assert now - last <= 5.0


def test_packets_and_messages_keep_a_browser_alive() -> None:
    liveness, packets = Liveness(0.0), 0
    for step in range(200):
        now = step * Liveness.TICK
        verdict = liveness.check(now, packets) if liveness.quiet(now) else "alive"
        assert verdict != "dead"
        packets += verdict == "ask"  # it acknowledges


async def test_peers_and_tasks_return_to_the_baseline() -> None:
    """Leaks for each connection (aiortc 1423, 904) and 'too many users' after stop and start (fastrtc 53)."""
    async with call() as (peer, ear, browser):
        await speak(ear, 0.1)
        await asyncio.wait_for(ear.played.wait(), PATIENCE)
    await asyncio.sleep(0.05)
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    for _ in range(3):
        async with call() as (peer, ear, browser):
            await speak(ear, 0.1)
            await asyncio.wait_for(ear.played.wait(), PATIENCE)
    await until(lambda: len(asyncio.all_tasks()) <= tasks and threading.active_count() <= threads + 1)
    del peer, ear, browser
    gc.collect()
    assert [thing for thing in gc.get_objects() if type(thing) is Peer] == []


async def test_no_datagram_of_the_data_channel_exceeds_a_small_mtu() -> None:
    """1280 bytes with headers (aiortc PR 1441)."""
    async with call() as (peer, _, browser):
        sizes: list[int] = []
        connection = peer._connection.sctp.transport.transport._connection
        send = connection._protocols[0].transport.sendto
        connection._protocols[0].transport.sendto = lambda data, *rest: (sizes.append(len(data)), send(data, *rest))
        peer.send('{"type":"long","text":"' + "x" * 5000 + '"}')
        await browser.event("long")
        assert DATA_BYTES < max(sizes) <= 1280 - 48


async def test_warming_up_leaves_nothing_behind() -> None:
    before = len(asyncio.all_tasks())
    await warm_up(configuration(""))
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_a_packet_is_known_by_its_timestamp() -> None:
    """Of all that went out, a page names what it heard last; also when the track has gone on elsewhere."""
    async with call() as (peer, ear, browser):
        came: list[RtpPacket] = []
        tap(browser.connection.getTransceivers()[0].receiver, came.append)
        await speak(ear, 0.4)
        await asyncio.wait_for(ear.played.wait(), PATIENCE)
        peer.detach()
        ear.track.detach()
        await asyncio.sleep(0.05)
        last = came[-1].timestamp
        assert peer.number(last) == ear.track.last
        assert [peer.number(last - behind * TICKS) for behind in range(10)] == [ear.track.last - behind for behind in range(10)]
        assert peer.number((last + 5 * TICKS) % (1 << 32)) is None, "that did not go out"
