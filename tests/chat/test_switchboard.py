"""Several media processes of one server, each behind its socket: whose call is whose, and what one that dies takes along."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.fake_engine import ToneTransport, tones
from tests.fake_hearing import Hearing
from tests.rtc.browser import Browser
from tests.waiting import until
from voxrtc.api.app import build_app
from voxrtc.api.host import PublicHost, Rules
from voxrtc.chat import switchboard as module
from voxrtc.chat.media import serve
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.chat.server import MediaServer
from voxrtc.chat.switchboard import Load, Switchboard, order
from voxrtc.chat.tokens import new_token, process_of
from voxrtc.messages.engine import Reference
from voxrtc.messages.media import Dig, MediaReply, MediaRequest, Offer, Resume
from voxrtc.processes import shares
from voxrtc.rtc.tunnel import NUMBER, RENDERED, UPWARDS
from voxrtc.settings import Settings

pytestmark = pytest.mark.anyio
MINE, ME = f"voice_{'0' * 32}", Reference(pcm=b"ab" * 100, sample_rate=24_000)


# --- pure ---


@given(some.dictionaries(some.sampled_from("abcd"), some.builds(Load, some.booleans(), some.integers(0, 9)), min_size=1))
def test_the_first_of_those_that_are_there_with_fewest_calls_is_asked_first(loads: dict[str, Load]) -> None:
    names = order(loads)
    assert sorted(names) == sorted(loads)
    there = [name for name in loads if loads[name].there] or list(loads)
    fewest = min(loads[name].calls for name in there)
    assert names[0] == next(name for name in there if loads[name].calls == fewest)
    assert [loads[name].there for name in names] == sorted((load.there for load in loads.values()), reverse=True)


@given(some.integers(1, 20), some.integers(0, 500))
def test_places_are_shared_out_evenly(processes: int, more: int) -> None:
    each = shares(processes + more, processes)
    assert sum(each) == processes + more and len(each) == processes
    assert each == sorted(each, reverse=True) and each[0] - each[-1] <= 1 and each[-1] >= 1


def test_a_token_names_its_process_and_cannot_be_guessed() -> None:
    one, two = new_token("media-2"), new_token("media-2")
    assert process_of(one) == process_of(two) == "media-2" and one != two and len(one) > 24
    assert process_of("guésséd") == "guésséd" and process_of("") == ""


# --- over sockets ---


class Media:
    """A process, but for being one: it may stop and be started anew. `silent` while it answers nothing."""

    def __init__(self, folder: Path, name: str, places: int) -> None:
        self.address, self.name, self.places, self.silent = f"ipc://{folder}/{name}", name, places, False
        self.tone = ToneTransport(speed=20.0)
        self.serving: asyncio.Future[None] | None = None

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply | None:
        if self.silent:
            await asyncio.Event().wait()
        return await self.server.handle(request, tell)

    def start(self) -> None:
        self.server = MediaServer(tones(self.tone), Hearing(), lambda: None, Settings(max_peers=self.places), name=self.name)
        self.serving = asyncio.ensure_future(serve(self, self.address))

    async def stop(self) -> None:
        """It tells nobody anything."""
        if self.serving:
            self.serving.cancel()
            await asyncio.gather(self.serving, return_exceptions=True)
            self.serving = None
            await self.server.close()

    @property
    def calls(self) -> set[str]:
        return set(self.server._talks)


class House:
    """Two processes, a and b, and who is told of calls that are over."""

    def __init__(self, folder: Path, places: tuple[int, int] = (40, 40)) -> None:
        self.a, self.b = Media(folder, "a", places[0]), Media(folder, "b", places[1])
        self.media = Switchboard({each.name: MediaClient(each.address) for each in (self.a, self.b)})
        self.over: list[str] = []
        self.media.over = self.over.append

    async def socket(self, call: str) -> Line:
        line = Line(self.media, call)
        await self.media.open(call, {"model": "tone"}, line.take)
        return line

    async def tunnel(self, call: str, resume: Resume | None = None) -> Line:
        line = Line(self.media, call)
        await self.media.dig(Dig(call=call, resume=resume or Resume()), line.take)
        return line

    async def lose(self, line: Line) -> None:
        """Its client is gone, and may come back."""
        (process,) = [each for each in (self.a, self.b) if line.call in each.calls]
        self.media.lost(line.call)
        await until(lambda: process.server._talks[line.call].kept)  # type: ignore[union-attr]

    def where(self, *calls: str) -> str:
        """Which processes have these."""
        return "".join(each.name for call in calls for each in (self.a, self.b) if each.serving and call in each.calls)


class Line:
    """A client's end of a WebSocket, which has rendered its packets as soon as they come."""

    def __init__(self, media: Switchboard, call: str) -> None:
        self.call, self._media = call, media
        self.events: list[dict[str, Any]] = []
        self.packets = 0
        self.ended = False

    def take(self, news: str | bytes | None) -> None:
        if isinstance(news, bytes):
            self.packets += 1
            self._media.packet(self.call, UPWARDS.pack(RENDERED, *NUMBER.unpack_from(news)))
        elif news is None:
            self.ended = True
        else:
            self.events.append(json.loads(news))

    async def event(self, type: str) -> dict[str, Any]:
        return (await until(lambda: [event for event in self.events if event["type"] == type]))[-1]

    async def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self._media.say(self.call, json.dumps({"type": "conversation.item.create", "item": item}))
        await self._media.say(self.call, '{"type": "response.create"}')


@asynccontextmanager
async def opened(folder: Path, places: tuple[int, int] = (40, 40)) -> AsyncIterator[House]:
    house = House(folder, places)
    house.a.start()
    house.b.start()
    try:
        await asyncio.wait_for(house.media.ready(), 10)
        yield house
    finally:
        await house.media.close()
        await house.a.stop()
        await house.b.stop()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path) as house:
        yield house


async def refused(asked: Any) -> CallRefused:
    with pytest.raises(CallRefused) as refusal:
        await asked
    return refusal.value


async def test_a_call_goes_where_fewest_are_and_all_that_is_its_goes_with_it(house: House) -> None:
    lines = await asyncio.gather(*(house.socket(f"{number}") for number in range(4)))
    assert house.where("0", "1", "2", "3") == "abab", "also those that come at the same time"
    for line in lines:
        await line.say(f"number {line.call}")
        await line.event("response.done")
        await house.media.tell(line.call, '{"type": "voxrtc.ending", "seconds": 60}')
        assert (await line.event("voxrtc.ending"))["seconds"] == 60
    assert [len(each.tone.tasks) for each in (house.a, house.b)] == [2, 2]
    assert await house.media.hang_up("2") and house.where("0", "1", "2", "3") == "abb" and house.over == ["2"]
    assert not await house.media.hang_up("2"), "it is over"
    await house.socket("4")
    assert house.where("4") == "a"
    assert (await refused(house.media.say("2", "{}"))).code == "media_lost"
    await house.media.tell("2", "{}")
    house.media.packet("2", b"\0")
    house.media.lost("2")


async def test_a_token_leads_to_its_process(house: House) -> None:
    _, second, _ = [await house.tunnel(call) for call in ("first", "second", "other")]
    about = await second.event("voxrtc.session")
    assert (house.where("second"), process_of(about["token"])) == ("b", "b")
    await second.say("one two three four five six seven eight nine ten")
    await until(lambda: second.packets)
    for call in ("first", "other"):
        await house.media.hang_up(call)
    await house.lose(second)
    again = await house.tunnel("again", Resume(about["token"], len(second.events), about["line"]))
    assert house.where("again") == "b", "though a has no call"
    await again.event("output_audio_buffer.stopped")
    assert again.packets
    browser = Browser()
    offer = Offer(call="once more", sdp=await browser.offer(), resume=Resume(about["token"]))
    assert (await house.media.answer(offer)).token == about["token"]
    assert house.where("once more") == "b"
    for call in ("x", "y", "z"):
        await house.tunnel(call)
    assert house.where("x", "y", "z") == "aab", "who comes back is no further call"
    assert await house.media.hang_up("once more"), "any of its lines' names will do"
    assert sorted(house.over) == ["again", "first", "once more", "other", "second"]
    assert (await refused(house.tunnel("late", Resume(about["token"])))).code == "session_gone"
    assert (await refused(house.tunnel("wrong", Resume("guessed.c")))).code == "session_gone"
    await browser.close()


@pytest.mark.parametrize(("places", "told"), [((1, 2), "abb"), ((2, 1), "aba")])
async def test_places_are_counted_over_all(tmp_path: Path, places: tuple[int, int], told: str) -> None:
    async with opened(tmp_path, places) as house:
        for call in ("0", "1", "2"):
            await house.socket(call)
        assert house.where("0", "1", "2") == told
        full = await refused(house.socket("late"))
        assert (full.status, full.code) == (503, "too_many_calls")
        await house.media.hang_up("1")
        await house.socket("late")
        assert house.where("late") == "b"


async def test_who_may_come_back_makes_room_wherever_that_is(tmp_path: Path) -> None:
    async with opened(tmp_path, (1, 1)) as house:
        await house.socket("here")
        away = await house.tunnel("away")
        await away.event("voxrtc.session")
        assert house.where("away") == "b"
        await house.lose(away)
        await house.socket("new")
        assert house.where("here", "away", "new") == "ab" and house.over == ["away"]


async def test_one_that_dies_takes_its_calls_along_and_no_others(house: House) -> None:
    found = []
    house.media.found = lambda: found.append(1)
    lines = [await house.socket(f"{number}") for number in range(4)]
    await lines[0].say("word " * 20)
    await house.b.stop()
    await until(lambda: len(house.over) == 2)
    assert house.over == ["1", "3"] and [line.ended for line in lines] == [False, True, False, True]
    await lines[0].event("response.done")
    assert not await house.media.hang_up("1")
    assert list(await house.media.stats()) == ["a"]
    await house.socket("new")
    assert house.where("new") == "a", "though b has fewer"
    assert not found
    house.b.start()
    await until(lambda: found)
    await house.socket("newer")
    assert house.where("newer") == "b"


async def test_with_none_there_every_question_says_so(house: House) -> None:
    await house.socket("0")
    await house.a.stop()
    await house.b.stop()
    await until(lambda: house.over == ["0"])
    media = house.media
    for asked in (media.stats(), media.voices_used(), media.drain(1), media.transcribe(b""), house.socket("1")):
        refusal = await refused(asked)
        assert (refusal.status, refusal.code) == (503, "media_lost")


async def test_one_that_is_starting_has_places_soon(tmp_path: Path) -> None:
    """So who finds the others full had better try again in a few seconds than in a minute."""
    async with opened(tmp_path, (1, 1)) as house:
        await house.socket("0")
        await house.b.stop()
        await until(lambda: not house.media._clients["b"].there)
        assert (await refused(house.socket("1"))).code == "media_lost"


async def test_one_that_does_not_answer_is_not_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOLD_WITHIN", 0.05)
    house.b.silent = True
    assert list(await house.media.stats()) == ["a"]
    for call in "01":
        await house.socket(call)
        assert house.where(call) == "a", "nor is it given a call"
    house.a.silent = True
    assert "does not answer" in (await refused(house.media.stats())).message


async def test_one_that_does_not_answer_gets_no_more_calls_till_it_does(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MediaClient._ask, "__defaults__", (0.05,))
    await house.socket("0")
    house.b.silent = True
    assert (await refused(house.socket("1"))).code == "media_lost"
    house.b.silent = False
    await house.socket("2")
    assert house.where("2") == "a", "though b has none"
    await house.media.stats()
    await house.socket("3")
    assert house.where("3") == "b"


async def test_voices_are_known_to_all_and_used_by_any(house: House) -> None:
    await house.media.keep_voice(MINE, ME)
    assert house.a.server._recordings == house.b.server._recordings == {MINE: ME}
    assert await house.media.voices_used() == []
    await house.b.stop()
    await house.media.keep_voice(f"{MINE}1", ME)  # the other is told when it is there
    await house.media.drop_voice(MINE)
    assert list(house.a.server._recordings) == [f"{MINE}1"]


async def test_all_calls_are_drained(house: House) -> None:
    lines = [await house.socket(f"{number}") for number in range(2)]
    await house.media.drain(5)
    assert sorted(house.over) == ["0", "1"]
    assert all(line.events[-1]["error"]["code"] == "shutting_down" for line in lines)


async def test_a_public_host_has_places_again_when_one_dies(house: House) -> None:
    host = PublicHost(Rules(calls=9, starts=99, places=2, seconds=600), house.media)
    house.media.over = host.over
    for call in ("0", "1"):
        host.begin(call, "1.1.1.1")
        await house.socket(call)
    await house.b.stop()
    await until(lambda: list(host._calls) == ["0"])
    host.begin("2", "1.1.1.1")
    for call in ("0", "2"):
        host.over(call)


async def test_over_http_nobody_knows_how_many_there_are(house: House) -> None:
    app = build_app(tones(), house.media)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://voxrtc") as client:
        browsers = [Browser(), Browser()]
        calls = [await client.post("/v1/realtime/calls", json={"sdp": await browser.offer()}) for browser in browsers]
        places = [call.headers["location"] for call in calls]
        assert house.where(*(place.rpartition("/")[2] for place in places)) == "ab"
        for browser, call in zip(browsers, calls, strict=True):
            await browser.accept(call.text)
            await browser.event("session.created")
        assert (await client.get("/v1/voxrtc/stats")).json()["media"]["peers"] == 2
        assert (await client.delete(places[1])).status_code == 204 and house.where("".join(places)) == ""
        await house.b.stop()
        await until(lambda: not house.media._clients["b"].there)
        assert (await client.get("/readyz")).status_code == 200, "who calls now is heard"
        assert (await client.get("/v1/voxrtc/stats")).json()["media"]["peers"] == 1
        assert (await client.delete(places[0])).status_code == 204
        for browser in browsers:
            await browser.close()
