"""A public host as its visitors meet it: bounds by address, places and the line for them, a call's time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator

import httpx
import pytest
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from tests.waiting import PATIENCE, eventually
from voxrtc.api import guests, public
from voxrtc.api import host as hosts
from voxrtc.api.app import build_app
from voxrtc.api.host import PublicHost, Rules
from voxrtc.api.hosting import Hosting
from voxrtc.chat.media_client import CallRefused
from voxrtc.messages.media import Offer

PATH, SPEECH, QUEUE = "/v1/realtime/calls", "/v1/audio/speech", "/v1/voxrtc/queue"
OFFER = {"content": "v=0\r\n", "headers": {"Content-Type": "application/sdp"}}
RULES = Rules(calls=2, starts=100, places=3, seconds=600)


class Open:
    """A public host behind a proxy on this machine: `url`, the media process behind it, and an engine as fast as one wants."""

    def __init__(self, rules: Rules, speed: float = 0.0) -> None:
        self.media, self.tone = EchoMedia(), ToneTransport(speed)
        self.host = PublicHost(rules, self.media)  # type: ignore[arg-type]
        self.media.over = self.host.over
        self.app = build_app(tones(self.tone), self.media, hosting=Hosting(public=self.host))  # type: ignore[arg-type]
        self.url = ""

    def client(self, address: str = "203.0.113.1") -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"X-Forwarded-For": address}, timeout=20)


@pytest.fixture
def rules() -> Rules:
    return RULES


@pytest.fixture
def speed() -> float:
    return 0.0


@pytest.fixture
def open_host(rules: Rules, speed: float) -> Iterator[Open]:
    ours = Open(rules, speed)
    with serving(ours.app, proxies="127.0.0.1") as (host, port):
        ours.url = f"http://{host}:{port}"
        yield ours


def call(client: httpx.Client, ticket: str = "") -> httpx.Response:
    return client.post(PATH, params={"ticket": ticket} if ticket else None, **OFFER)  # type: ignore[arg-type]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_one_address_has_its_share_and_another_its_own(open_host: Open) -> None:
    with open_host.client() as here, open_host.client("203.0.113.2") as there:
        first, _ = call(here), call(here)
        refused = call(here)
        assert code(refused) == (429, "too_many_of_yours")
        assert int(refused.headers["Retry-After"]) > 0
        assert call(there).status_code == 201
        assert here.delete(first.headers["Location"]).status_code == 204
        assert call(here).status_code == 201, "its slot was freed at once"


def test_stop_and_start_again_never_fills_the_house(open_host: Open) -> None:
    """fastrtc issue 53: 'too many users' after some rounds of stop and start."""
    with open_host.client() as here:
        for _ in range(20):
            answer = call(here)
            assert answer.status_code == 201
            assert here.delete(answer.headers["Location"]).status_code == 204


def test_a_call_that_does_not_come_about_takes_no_place(open_host: Open) -> None:
    with open_host.client() as here:
        open_host.media.refusal = CallRefused(400, "no_audio", "No audio.")
        for _ in range(5):
            assert code(call(here)) == (400, "no_audio")
        open_host.media.refusal = None
        assert call(here).status_code == 201


def test_calls_that_a_dead_media_process_took_along_are_over(open_host: Open) -> None:
    with open_host.client() as here:
        assert [call(here).status_code for _ in range(2)] == [201, 201]
        for each in list(open_host.media.calls):
            open_host.media.over(each)
        assert [call(here).status_code for _ in range(2)] == [201, 201]


@pytest.mark.parametrize("rules", [Rules(calls=100, starts=3, places=100, seconds=600)])
def test_starts_are_counted_whatever_is_started(open_host: Open) -> None:
    with open_host.client() as here:
        assert call(here).status_code == 201
        assert here.post(SPEECH, json={"input": "Hello"}).status_code == 200
        assert here.post(SPEECH, json={"input": "Hello"}).status_code == 200
        for refused in (call(here), here.post(SPEECH, json={"input": "Hello"}), here.post("/v1/audio/voices")):
            assert code(refused) == (429, "too_often")
            assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert here.get("/v1/models").status_code == 200, "looking costs nothing"


def test_who_comes_back_does_so_a_bounded_number_of_times(open_host: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "LINES", 3)
    again = {"sdp": "v=0\r\n", "resume": {"token": "secret"}}
    with open_host.client() as here, open_host.client("203.0.113.2") as there:
        assert [here.post(PATH, json=again).status_code for _ in range(3)] == [201] * 3, "they are no calls of their own"
        refused = here.post(PATH, json=again)
        assert code(refused) == (429, "too_often") and 0 < int(refused.headers["Retry-After"]) <= 60
        url = f"{open_host.url.replace('http', 'ws')}/v1/voxrtc/tunnel"
        with connect(url, additional_headers={"X-Forwarded-For": "203.0.113.1"}) as tunnel:
            tunnel.send(json.dumps({"resume": again["resume"]}))
            assert json.loads(tunnel.recv(10))["error"]["code"] == "too_often"
        assert there.post(PATH, json=again).status_code == 201
        assert call(here).status_code == 201, "a call is counted as such"


@pytest.mark.parametrize("forwarded", ["9.9.9.9, 203.0.113.1", "203.0.113.1"])
def test_a_visitor_s_own_word_about_the_address_counts_for_nothing(open_host: Open, forwarded: str) -> None:
    with open_host.client() as here, open_host.client(forwarded) as liar:
        call(here), call(here)
        assert code(call(liar)) == (429, "too_many_of_yours")


def test_without_a_known_proxy_the_header_is_not_read() -> None:
    ours = Open(RULES)
    with serving(ours.app, proxies="10.0.0.1") as (host, port):
        ours.url = f"http://{host}:{port}"
        with ours.client("1.1.1.1") as one, ours.client("2.2.2.2") as two:
            assert [call(one).status_code, call(two).status_code, call(two).status_code] == [201, 201, 429]


@pytest.mark.parametrize("speed", [1.0])
def test_an_utterance_counts_while_it_is_heard(open_host: Open) -> None:
    long = {"input": "word " * 200, "response_format": "pcm"}
    with open_host.client() as here, here.stream("POST", SPEECH, json=long) as one:
        assert one.status_code == 200
        with here.stream("POST", SPEECH, json=long):
            assert code(call(here)) == (429, "too_many_of_yours")
        eventually(lambda: call(here).status_code == 201)


# --- the line ---


def read(lines: Iterator[str]) -> dict[str, object]:
    return json.loads(next(line for line in lines if line.startswith("data: "))[6:])


@pytest.mark.parametrize("rules", [Rules(calls=2, starts=100, places=1, seconds=600)])
def test_who_finds_no_place_stands_in_line_and_is_called(open_host: Open) -> None:
    with open_host.client("1.1.1.1") as first, open_host.client("2.2.2.2") as second, open_host.client("3.3.3.3") as third:
        taken = call(first)
        full = call(second)
        assert code(full) == (503, "places_taken")
        assert int(full.headers["Retry-After"]) > 0
        with second.stream("GET", QUEUE) as line, third.stream("GET", QUEUE) as behind:
            news, others = line.iter_lines(), behind.iter_lines()
            assert read(news)["position"] == 1
            assert read(others)["position"] == 2
            first.delete(taken.headers["Location"])
            ticket = str(read(news)["ticket"])
            assert read(others)["position"] == 1
            assert code(call(first)) == (503, "places_taken"), "the place is kept"
            assert call(second, ticket).status_code == 201
            assert code(call(third, ticket)) == (503, "places_taken"), "a ticket is for once"


@pytest.mark.parametrize("rules", [Rules(calls=2, starts=100, places=1, seconds=600)])
def test_whoever_closes_the_page_leaves_the_line(open_host: Open) -> None:
    with open_host.client("1.1.1.1") as first, open_host.client("2.2.2.2") as second, open_host.client("3.3.3.3") as third:
        call(first)
        with second.stream("GET", QUEUE) as line:
            assert read(line.iter_lines())["position"] == 1
        with third.stream("GET", QUEUE) as line:
            lines = line.iter_lines()
            eventually(lambda: read(lines)["position"] == 1)
        eventually(lambda: open_host.host.room.waiting == 0)


def test_in_normal_mode_there_is_no_line_and_no_bound() -> None:
    with TestClient(build_app(tones(), EchoMedia())) as client:  # type: ignore[arg-type]
        assert client.get(QUEUE).status_code == 404
        assert [client.post(PATH, **OFFER).status_code for _ in range(30)] == [201] * 30  # type: ignore[arg-type]


# --- WebSockets, and all the rest ---


def test_a_websocket_is_a_call_too(open_host: Open) -> None:
    url = f"{open_host.url.replace('http', 'ws')}/v1/realtime"
    headers = {"X-Forwarded-For": "203.0.113.1"}
    with connect(url, additional_headers=headers), connect(url, additional_headers=headers):
        with connect(url, additional_headers=headers) as refused:
            assert json.loads(refused.recv(10))["error"]["code"] == "too_many_of_yours"
        with open_host.client() as here:
            assert code(call(here)) == (429, "too_many_of_yours")
    with open_host.client() as here:
        eventually(lambda: call(here).status_code == 201)


@pytest.mark.parametrize("rules", [Rules(calls=1, starts=100, places=1, seconds=600)])
@pytest.mark.parametrize("end", ["refused", "unforeseen", "left"])
def test_a_tunnel_that_does_not_come_about_takes_no_place(open_host: Open, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left = threading.Event(), threading.Event()

    async def dig(*_: object) -> None:
        begun.set()
        await asyncio.to_thread(left.wait, PATIENCE)
        raise OSError("full") if end == "unforeseen" else CallRefused(400, "no_model", "None is ready.")

    monkeypatch.setattr(open_host.media, "dig", dig)
    with open_host.client("127.0.0.1") as here:
        with connect(f"{open_host.url.replace('http', 'ws')}/v1/voxrtc/tunnel") as client:
            client.send("{}")
            assert begun.wait(PATIENCE)
            assert call(here).status_code != 201
            if end == "left":
                client.close()
            left.set()
            with contextlib.suppress(ConnectionClosed):
                client.recv(PATIENCE)
        eventually(lambda: call(here).status_code == 201)


def test_requests_at_a_time_are_bounded(open_host: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "OPEN", 1)
    url = f"{open_host.url.replace('http', 'ws')}/v1/realtime"
    with connect(url, additional_headers={"X-Forwarded-For": "203.0.113.1"}), open_host.client() as here:
        assert code(here.get("/v1/models")) == (429, "too_many_of_yours")
        with pytest.raises(InvalidStatus):
            connect(url, additional_headers={"X-Forwarded-For": "203.0.113.1"})
        with open_host.client("5.5.5.5") as there:
            assert there.get("/v1/models").status_code == 200


def test_a_body_is_bounded_on_every_route(open_host: Open) -> None:
    @open_host.app.post("/swallow")
    async def swallow(body: dict[str, str]) -> int:
        return len(body)

    with open_host.client() as here:
        assert here.post("/swallow", json={"x": "y" * 1000}).status_code == 200
        assert here.post("/swallow", json={"x": "y" * (9 << 20)}).status_code == 413


# --- a call's time ---


@pytest.mark.anyio
async def test_a_call_is_warned_told_and_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "FAREWELL", 0.0)
    monkeypatch.setattr(hosts, "WARNING", 0.02)
    ours = Open(Rules(calls=1, starts=10, places=1, seconds=0.05))
    over = asyncio.Event()
    ours.media.over = lambda call: (ours.host.over(call), over.set())
    transport = httpx.ASGITransport(ours.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        assert (await client.post(PATH, **OFFER)).status_code == 201  # type: ignore[arg-type]
        await asyncio.wait_for(over.wait(), PATIENCE)
        assert (await client.post(PATH, **OFFER)).status_code == 201  # type: ignore[arg-type]
    warning, end = (json.loads(text) for _, text in ours.media.told[:2])
    assert (warning["type"], warning["seconds"]) == ("voxrtc.ending", 0.02)
    assert (end["type"], end["error"]["code"]) == ("error", "session_expired")
    assert "call again" in end["error"]["message"]


@pytest.mark.anyio
@pytest.mark.parametrize("all_of_it", [False, True])
async def test_a_media_process_that_was_silent_for_a_while_gives_nobody_more_time(
    all_of_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "FAREWELL", 0.0)
    ours = Open(Rules(calls=1, starts=10, places=1, seconds=0.02))
    over, end = asyncio.Event(), ours.host.over
    ours.host.over = lambda call: (end(call), over.set())  # type: ignore[method-assign]
    ours.media.over = ours.host.over
    await ours.media.answer(Offer(call="rtc_1", sdp=""))
    ours.media.deaf = CallRefused(503, "media_lost", "It does not answer.")
    ours.media.refusal = ours.media.deaf if all_of_it else None
    ours.host.begin("rtc_1", "1.1.1.1")
    await asyncio.wait_for(over.wait(), PATIENCE)
    assert bool(ours.media.calls) is all_of_it, "it was hung up, or could not be"
    ours.host.begin("rtc_2", "1.1.1.1")
    end("rtc_2")


@pytest.mark.anyio
async def test_a_call_that_ended_before_is_left_alone() -> None:
    ours = Open(Rules(calls=1, starts=10, places=1, seconds=0.02))
    ours.host.begin("rtc_1", "1.1.1.1")
    ours.host.over("rtc_1")
    ours.host.over("rtc_1")  # once is enough
    await asyncio.sleep(0.05)
    assert ours.media.told == []
    ours.host.begin("rtc_2", "1.1.1.1")
    ours.host.over("rtc_2")
