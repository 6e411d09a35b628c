"""The media process: in this process, over its socket, and as a process of its own that may die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq
import zmq.asyncio

from tests.fake_engine import ToneTransport, tones
from tests.fake_hearing import Hearing
from tests.program import process_of
from tests.rtc.browser import Browser
from tests.rtc.sounds import lasts, peak_hertz
from tests.waiting import PATIENCE, until
from voxrtc.chat.media import MediaServer, serve
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.messages import decode, encode
from voxrtc.messages.engine import EngineRequest, Generate
from voxrtc.messages.media import (
    Answer,
    Dig,
    GetMediaStats,
    HangUp,
    MediaReply,
    MediaRequest,
    MediaStats,
    Offer,
    Over,
    Refused,
    Tell,
    Told,
)
from voxrtc.settings import Settings


def server(tone: ToneTransport | None = None, **settings: object) -> MediaServer:
    return MediaServer(tones(*[tone] if tone else []), Hearing(), lambda: None, Settings(**settings))  # type: ignore[arg-type]


async def ask(media: MediaServer, request: MediaRequest) -> MediaReply:
    """For those who need be told nothing more."""
    return await media.handle(request, lambda reply: None)


async def stats(media: MediaServer) -> MediaStats:
    reply = await ask(media, GetMediaStats(call="s"))
    assert isinstance(reply, MediaStats)
    return reply


async def test_a_call_from_offer_to_hang_up() -> None:
    media, browser = server(), Browser()
    answer = await ask(media, Offer(call="a", sdp=await browser.offer(), session={"model": "tone"}))
    assert isinstance(answer, Answer)
    await browser.accept(answer.sdp)
    assert (await browser.event("session.created"))["session"]["model"] == "tone"
    browser.say("one two three four five")
    await browser.event("output_audio_buffer.stopped")
    now = await stats(media)
    assert (now.peers, now.calls, now.underruns) == (1, 1, 0) and now.tasks > 0
    assert now.talking == ["tone"]
    assert (await ask(media, HangUp(call="a"))).known  # type: ignore[union-attr]
    assert (await stats(media)).talking == []
    assert not (await ask(media, HangUp(call="a"))).known  # type: ignore[union-attr]
    now = await stats(media)
    assert (now.peers, now.calls, now.underruns) == (0, 1, 0)
    await browser.close()


async def test_who_calls_is_answered_even_by_a_server_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    media, browser = server(), Browser()
    monkeypatch.setattr("voxrtc.chat.server.choose", lambda *_: 1 / 0)
    refused = await ask(media, Offer(call="a", sdp=await browser.offer()))
    assert isinstance(refused, Refused) and (refused.status, refused.code) == (500, "internal_error")
    await browser.close()


async def test_places_are_limited_and_come_back() -> None:
    media = server(max_peers=1)
    for number in range(3):  # 'too many users' after stop and start (fastrtc 53)
        browser, late = Browser(), Browser()
        assert isinstance(await ask(media, Offer(call=f"{number}", sdp=await browser.offer())), Answer)
        refused = await ask(media, Offer(call="late", sdp=await late.offer()))
        assert isinstance(refused, Refused)
        assert (refused.status, refused.code) == (503, "too_many_calls")
        await ask(media, HangUp(call=f"{number}"))
        await browser.close()
        await late.close()


async def test_a_line_that_cannot_be_made_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say, for want of files."""
    media, browser = server(max_peers=1), Browser()
    sdp = await browser.offer()
    for kind, request in (("Peer", Offer(call="a", sdp=sdp)), ("Tunnel", Dig(call="b"))):
        with monkeypatch.context() as patch:
            patch.setattr(f"voxrtc.chat.server.{kind}", lambda *_: 1 / 0)
            refused = await ask(media, request)
        assert isinstance(refused, Refused) and refused.status == 500
    assert isinstance(await ask(media, Offer(call="c", sdp=sdp)), Answer)
    await media.close()
    assert not (media._talks or media._tell or media._tunnels)
    await browser.close()


async def test_whoever_began_a_call_can_tell_its_client_and_is_told_when_it_is_over() -> None:
    media, browser, told = server(), Browser(), []  # type: ignore[var-annotated]
    answer = await media.handle(Offer(call="a", sdp=await browser.offer()), told.append)
    assert isinstance(answer, Answer)
    await browser.accept(answer.sdp)
    await browser.event("session.created")
    assert await ask(media, Tell(call="a", text='{"type":"voxrtc.ending","seconds":60}')) == Told(call="a")
    assert (await browser.event("voxrtc.ending"))["seconds"] == 60
    assert await ask(media, Tell(call="b", text="{}")) == Told(call="b"), "one that is over hears nothing"
    await browser.close()
    await until(lambda: Over(call="a") in told)
    await media.handle(Offer(call="c", sdp="nonsense"), told.append)
    assert told.count(Over(call="a")) == 1
    await media.close()


async def test_calls_that_nobody_listens_to_take_no_place_and_give_way() -> None:
    tone = ToneTransport()
    media, idle = server(tone, max_peers=4), {"voxrtc": {"background": True}}
    browsers = [Browser() for _ in range(6)]
    offers = [await browser.offer() for browser in browsers]
    answer = await ask(media, Offer(call="idle", sdp=offers[0], session=idle))
    assert isinstance(answer, Answer)
    assert isinstance(await ask(media, Offer(call="more", sdp=offers[1], session=idle)), Refused), "a quarter of all places"
    for number in range(4):
        assert isinstance(await ask(media, Offer(call=f"{number}", sdp=offers[2 + number])), Answer)
    assert isinstance(await ask(media, Offer(call="late", sdp=offers[1])), Refused)
    await browsers[0].accept(answer.sdp)
    await browsers[0].event("session.created")
    browsers[0].say("one")
    await browsers[0].event("output_audio_buffer.stopped")
    assert [request.background for request in tone.requests if isinstance(request, Generate)] == [True]
    await media.close()
    for browser in browsers:
        await browser.close()


async def test_offers_at_the_same_time_do_not_share_a_place() -> None:
    media, browsers = server(max_peers=1), [Browser() for _ in range(3)]
    offers = [Offer(call=f"{number}", sdp=await browser.offer()) for number, browser in enumerate(browsers)]
    replies = await asyncio.gather(*(ask(media, offer) for offer in offers))
    assert [type(reply) for reply in replies].count(Answer) == 1
    for browser in browsers:
        await browser.close()
    await media.close()


@pytest.mark.parametrize("session", [{"model": "parrot"}, {"audio": {"output": {"voice": "alloy"}}}, {"model": 3}])
async def test_a_session_that_cannot_be_is_refused_with_the_choices(session: dict[str, object]) -> None:
    media, browser = server(), Browser()
    refused = await ask(media, Offer(call="a", sdp=await browser.offer(), session=session))
    assert isinstance(refused, Refused)
    assert refused.status == 400
    assert "tone" in refused.message or "default" in refused.message or "str" in refused.message
    await browser.close()
    assert not media._talks


async def test_a_bad_offer_is_refused_and_takes_no_place() -> None:
    media = server(max_peers=1)
    for sdp in ("", "nonsense", "v=0\r\n"):
        refused = await ask(media, Offer(call="a", sdp=sdp))
        assert isinstance(refused, Refused)
        assert refused.status == 400
    browser = Browser()
    assert isinstance(await ask(media, Offer(call="a", sdp=await browser.offer())), Answer)
    await browser.close()
    await media.close()


async def test_an_engine_that_is_not_there_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.chat.server.MODEL_WITHIN", 0.1)
    tone = ToneTransport()
    tone.lost = True
    media, browser = server(tone), Browser()
    refused = await ask(media, Offer(call="a", sdp=await browser.offer()))
    assert isinstance(refused, Refused)
    assert (refused.status, refused.code) == (503, "engine_lost")
    tone.find()
    assert isinstance(await ask(media, Offer(call="a", sdp=await browser.offer())), Answer)
    tone.lose()  # its models are known now: calls go on while it restarts
    other = Browser()
    assert isinstance(await ask(media, Offer(call="b", sdp=await other.offer())), Answer)
    for each in (browser, other):
        await each.close()
    await media.close()


async def test_two_listeners_at_a_time_hear_their_own() -> None:
    media, browsers = server(ToneTransport(speed=3)), [Browser(), Browser()]
    for number, browser in enumerate(browsers):
        answer = await ask(media, Offer(call=f"{number}", sdp=await browser.offer()))
        assert isinstance(answer, Answer)
        await browser.accept(answer.sdp)
        browser.say("word " * (3 + 3 * number))
    for number, browser in enumerate(browsers):
        await browser.event("output_audio_buffer.stopped")
        await until(lambda browser=browser, number=number: lasts(browser.sound) > 0.28 + 0.3 * number)
        assert lasts(browser.sound) == pytest.approx(0.3 + 0.3 * number, abs=0.03)
        await browser.close()
    await media.close()


# --- over sockets ---


async def refusal_of(client: MediaClient) -> CallRefused:
    """What the client says once it has noticed that its process is dead."""
    while True:
        try:
            await client.stats()
        except CallRefused as refusal:
            return refusal


@asynccontextmanager
async def tone_engine(address: str) -> AsyncIterator[ToneTransport]:
    """An engine process's socket, with a tone behind it."""
    tone = ToneTransport()
    context = zmq.asyncio.Context()
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(address)
    clients: list[bytes] = []
    tone.connect(lambda reply: [socket.send_multipart([client, encode(reply)]) for client in clients[-1:]], lambda: None)

    async def answer() -> None:
        while True:
            client, data = await socket.recv_multipart()
            clients.append(client)
            tone.send(decode(data, EngineRequest))

    task = asyncio.ensure_future(answer())
    try:
        yield tone
    finally:
        task.cancel()
        await tone.close()
        socket.close()
        context.term()


class Process:
    """`python -m voxrtc.chat.media` over loopback."""

    def __init__(self, folder: Path) -> None:
        self.engine, self.address = f"ipc://{folder}/engine", f"ipc://{folder}/media"
        self._living = ExitStack()

    def start(self) -> None:
        arguments = ["--engine", f"tone={self.engine}", "--hearing", f"{self.address}-hearing", "--listen", self.address]
        process = process_of("voxrtc.chat.media", *arguments, VOXRTC_ICE_LOOPBACK="1")
        self.process = self._living.enter_context(process)

    def kill(self) -> None:
        self._living.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    process.kill()


async def test_requests_do_not_wait_for_each_other(tmp_path: Path) -> None:
    media, browser = server(), Browser()
    serving = asyncio.ensure_future(serve(media, f"ipc://{tmp_path}/media"))
    client = MediaClient(f"ipc://{tmp_path}/media")
    await asyncio.wait_for(client.ready(), PATIENCE)
    offer = await browser.offer()
    answer, counts, known = await asyncio.gather(
        client.answer(Offer(call="a", sdp=offer)), client.stats(), client.hang_up("unknown")
    )
    assert answer.sdp.startswith("v=0")
    assert counts.peers == 0
    assert known is False
    with pytest.raises(CallRefused) as refusal:
        await client.answer(Offer(call="b", sdp="nonsense"))
    assert (refusal.value.status, refusal.value.code) == (400, "invalid_offer")
    # Whoever hung up and the page that noticed: both at once, and both are answered.
    assert await asyncio.gather(client.hang_up("a"), client.hang_up("a")) == [True, True]
    await client.close()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await browser.close()


async def test_a_process_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    client = MediaClient(f"ipc://{tmp_path}/nobody")
    with pytest.raises(CallRefused) as refusal:
        await client.stats()
    assert (refusal.value.status, refusal.value.code) == (503, "media_lost")
    await client.close()


async def test_the_process_speaks_dies_and_comes_back(process: Process) -> None:
    async with tone_engine(process.engine):
        client = MediaClient(process.address)
        process.start()
        try:
            for _ in range(2):
                await asyncio.wait_for(client.ready(), PATIENCE)
                browser = Browser()
                answer = await client.answer(Offer(call="a", sdp=await browser.offer()))
                await browser.accept(answer.sdp)
                browser.say("one two three")
                await browser.event("output_audio_buffer.stopped")
                await until(lambda browser=browser: lasts(browser.sound) > 0.28)
                assert peak_hertz(np.trim_zeros(browser.sound)) == pytest.approx(440, abs=5)
                await browser.close()
                process.kill()
                assert (await refusal_of(client)).code == "media_lost"
                process.start()
        finally:
            process.kill()
            await client.close()


async def test_the_process_tells_its_listeners_of_a_dead_engine(process: Process) -> None:
    process.start()
    client = MediaClient(process.address)
    try:
        async with tone_engine(process.engine) as tone:
            tone.speed = 1.0
            await asyncio.wait_for(client.ready(), PATIENCE)
            browser = Browser()
            answer = await client.answer(Offer(call="a", sdp=await browser.offer()))
            await browser.accept(answer.sdp)
            browser.say("word " * 100)
            await browser.event("output_audio_buffer.started")
        assert (await browser.event("error"))["error"]["code"] == "engine_lost"
        assert (await browser.event("response.done"))["response"]["status"] == "failed"
        browser.events.clear()
        async with tone_engine(process.engine):
            while not any(event["type"] == "output_audio_buffer.stopped" for event in browser.events):
                browser.say("back again")
                await browser.event("response.done")
                await asyncio.sleep(0.2)
        await browser.close()
    finally:
        process.kill()
        await client.close()


async def test_the_process_ends_with_its_parent(process: Process) -> None:
    process.start()
    client = MediaClient(process.address)
    await asyncio.wait_for(client.ready(), PATIENCE)
    assert process.process.stdin is not None
    process.process.stdin.close()
    assert await asyncio.to_thread(process.process.wait, PATIENCE) == 0
    await client.close()


async def test_the_process_hangs_up_when_it_is_stopped(process: Process) -> None:
    async with tone_engine(process.engine):
        process.start()
        client = MediaClient(process.address)
        await asyncio.wait_for(client.ready(), PATIENCE)
        browser, closed = Browser(), asyncio.Event()
        answer = await client.answer(Offer(call="a", sdp=await browser.offer()))
        await browser.accept(answer.sdp)
        browser.channel.on("close", closed.set)
        process.process.terminate()
        await asyncio.wait_for(closed.wait(), PATIENCE)
        assert await asyncio.to_thread(process.process.wait, PATIENCE) == 0
        await client.close()
        await browser.close()
