"""TURN credentials: whom we ask and how, for how long an answer holds, and that no log has them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Callable
from typing import Annotated, Any

import httpx
import pytest
from aiortc.rtcicetransport import connection_kwargs
from fastapi import FastAPI, Header

from tests.serving import serving
from voxrtc.messages import encode
from voxrtc.messages.media import IceServer, Offer
from voxrtc.rtc import ice, turn
from voxrtc.rtc.turn import Own, Relays, TurnError, provider, read_servers

pytestmark = pytest.mark.anyio
KEY, PASSWORD = "k3y-0f-0urs", "p4ss-0f-theirs"
TURNS = "turns:turn.example.org:443?transport=tcp"
CLOUDFLARES = {
    "iceServers": [
        {"urls": ["stun:stun.example.org:3478", "stun:stun.example.org:53"]},
        {"urls": ["turn:turn.example.org:53?transport=udp", TURNS], "username": "u", "credential": PASSWORD},
    ]
}
ONE = {"iceServers": {"urls": [TURNS], "username": "u", "credential": PASSWORD}}
TWILIOS = {"ice_servers": [{"url": TURNS, "urls": TURNS, "username": "u", "credential": PASSWORD}], "password": PASSWORD}


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def http(handler: Callable[[httpx.Request], Any]) -> Callable[[], httpx.AsyncClient]:
    return lambda: httpx.AsyncClient(transport=httpx.MockTransport(handler))


class Cloud:
    """A service that answers with `answer`, or raises it."""

    def __init__(self, answer: httpx.Response | Exception) -> None:
        self.answer, self.asked = answer, []  # type: ignore[var-annotated]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return httpx.Response(self.answer.status_code, content=self.answer.content)


def relays(cloud: Any, clock: Time, name: str = "cloudflare") -> Relays:
    return Relays(provider(name, "our-id", KEY), clock, http(cloud))


@pytest.mark.parametrize(
    ("name", "answer", "method", "url", "sent"),
    [
        ("huggingface", CLOUDFLARES, "GET", "https://turn.fastrtc.org/credentials?ttl=3600", b""),
        (
            "cloudflare",
            CLOUDFLARES,
            "POST",
            "https://rtc.live.cloudflare.com/v1/turn/keys/our-id/credentials/generate-ice-servers",
            b'{"ttl":3600}',
        ),
        ("cloudflare", ONE, "POST", None, b'{"ttl":3600}'),
        ("twilio", TWILIOS, "POST", "https://api.twilio.com/2010-04-01/Accounts/our-id/Tokens.json", b"Ttl=3600"),
    ],
)
async def test_each_service_is_asked_in_its_own_way(name: str, answer: Any, method: str, url: str, sent: bytes) -> None:
    cloud = Cloud(httpx.Response(201, json=answer))
    servers = await relays(cloud, Time(), name).servers()
    (request,) = cloud.asked
    assert (request.method, request.content) == (method, sent)
    assert url is None or str(request.url) == url
    basic = base64.b64encode(f"our-id:{KEY}".encode()).decode()
    assert request.headers["authorization"] == (f"Basic {basic}" if name == "twilio" else f"Bearer {KEY}")
    assert servers[-1] == IceServer(urls=[TURNS], username="u", credential=PASSWORD), "port 53 is left out"


async def test_a_shared_secret_makes_credentials_as_coturn_checks_them() -> None:
    (server,) = await Relays(Own([TURNS], "", KEY, lambda: 1000.5)).servers()
    assert server.username == "4600:voxrtc"
    made = hmac.new(KEY.encode(), b"4600:voxrtc", hashlib.sha1).digest()
    assert base64.b64decode(server.credential) == made


async def test_a_user_with_a_password_is_passed_on() -> None:
    (server,) = await Relays(provider(f"turn:turn.example.org:3478, {TURNS}", "me", KEY)).servers()
    assert server == IceServer(urls=["turn:turn.example.org:3478", TURNS], username="me", credential=KEY)


@pytest.mark.parametrize(
    ("url", "for_us"),
    [
        ("turn:turn.example.org", True),
        ("turn:192.0.2.1:3478?transport=udp", True),
        ("turn:turn.example.org:80?transport=tcp", True),
        ("turns:turn.example.org", True),
        (TURNS, True),
        ("turn:[2001:db8::1]:3478", False),
    ],
)
async def test_what_is_taken_for_a_relay_aiortc_takes_too(url: str, for_us: bool) -> None:
    """Browsers know addresses that aiortc does not: they are theirs alone."""
    servers = ice.configuration("", await Relays(provider(url, "me", KEY)).servers()).iceServers
    assert servers is not None
    assert ("turn_server" in connection_kwargs(servers)) is for_us


async def test_nobody_is_asked_where_nobody_is_set() -> None:
    assert provider("", "", "") is None
    assert await Relays(None).servers() == []


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (("cloudflare", "id", ""), "VOXRTC_TURN_KEY"),
        (("huggingface", "", ""), "VOXRTC_TURN_KEY"),
        (("cloudflare", "", KEY), "the id of the TURN key"),
        (("twilio", "", KEY), "SID"),
        (("turn.example.org", "", KEY), "turns:example.org:443"),
        (("turn:turn.example.org:port", "", KEY), "turns:example.org:443"),
        (("turn:turn.example.org:70000", "", KEY), "turns:example.org:443"),
        (("turn://turn.example.org", "", KEY), "turns:example.org:443"),
        (("turn:me@turn.example.org", "", KEY), "turns:example.org:443"),
        (("turn:turn.example.org?transport=sctp", "", KEY), "turns:example.org:443"),
        (("turns:turn.example.org?transport=udp", "", KEY), "turns:example.org:443"),
        ((f"{TURNS} {TURNS}", "", KEY), "turns:example.org:443"),
        ((f"{TURNS},", "", KEY), "turns:example.org:443"),
        ((TURNS, "", ""), "shared secret"),
    ],
)
def test_what_is_missing_is_told_at_once(setting: tuple[str, str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told) as wrong:
        provider(*setting)
    assert KEY not in str(wrong.value)


async def test_an_answer_is_shared_and_renewed_after_a_quarter_of_its_life() -> None:
    cloud, clock = Cloud(httpx.Response(200, json=CLOUDFLARES)), Time()
    ours = relays(cloud, clock)
    await asyncio.gather(*(ours.servers() for _ in range(5)))
    clock.now += turn.FRESH - 1
    await ours.servers()
    assert len(cloud.asked) == 1
    clock.now += 1
    await ours.servers()
    assert len(cloud.asked) == 2


async def test_older_ones_serve_while_newer_ones_cannot_be_had(caplog: pytest.LogCaptureFixture) -> None:
    cloud, clock = Cloud(httpx.Response(200, json=CLOUDFLARES)), Time()
    ours = relays(cloud, clock)
    await ours.servers()
    cloud.answer = httpx.Response(500)
    clock.now += turn.FRESH
    assert await ours.servers(), "they work still"
    assert "500" in ours.trouble
    clock.now += turn.USABLE
    assert await ours.servers() == []
    cloud.answer = httpx.Response(200, json=CLOUDFLARES)
    clock.now += turn.AGAIN
    assert await ours.servers()
    assert ours.trouble == ""
    assert len(caplog.records) == 1, "told once, not with every call"


async def test_after_a_failure_nobody_is_asked_for_a_while() -> None:
    cloud, clock = Cloud(httpx.ConnectError("no")), Time()
    ours = relays(cloud, clock)
    assert [await ours.servers() for _ in range(3)] == [[], [], []]
    assert len(cloud.asked) == 1
    clock.now += turn.AGAIN
    await ours.servers()
    assert len(cloud.asked) == 2


async def test_a_silent_provider_holds_calls_up_once_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "WITHIN", 0.05)
    answer, asked = asyncio.Event(), 0

    async def silent(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        await answer.wait()
        return httpx.Response(200, json=CLOUDFLARES)

    clock = Time()
    ours = relays(silent, clock)
    assert await ours.servers() == []
    clock.now += 0.06
    assert await asyncio.wait_for(ours.servers(), 0.04) == [], "who comes later does not wait at all"
    answer.set()
    while not (servers := await ours.servers()):
        await asyncio.sleep(0)
    assert servers[-1].urls == [TURNS], "and has it when it came"
    assert asked == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (httpx.Response(401), "VOXRTC_TURN_KEY"),
        (httpx.Response(403), "VOXRTC_TURN_KEY"),
        (httpx.Response(429), "status 429"),
        (httpx.Response(200, content=b"<html>"), "cannot be read"),
        (httpx.Response(200, json={"iceServers": [{"urls": "stun:x"}]}), "no TURN server"),
        (httpx.ConnectTimeout("no"), "does not answer"),
        (httpx.ConnectError("no"), "ConnectError"),
        (httpx.ReadError("no"), "ReadError"),
    ],
)
async def test_what_fails_is_told_with_what_to_do_and_no_secret(
    answer: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = relays(Cloud(answer), Time())
    assert await ours.servers() == []
    assert told in ours.trouble
    assert ours.trouble in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize(("user", "key"), [("our-id", "k3y-0f-0urs-ü"), ("our\nid", KEY), ("our\x00id", KEY)])
async def test_what_nobody_foresaw_of_a_request_is_a_failure_like_any_other(
    user: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(httpx.Response(200, json=CLOUDFLARES))
    ours = Relays(provider("cloudflare", user, key), Time(), http(cloud))
    asked = []
    ask = ours._ask
    ours._ask = lambda provider: asked.append(provider) or ask(provider)  # type: ignore[method-assign]
    assert [await ours.servers() for _ in range(3)] == [[], [], []]
    assert len(asked) == 1
    assert "VOXRTC_TURN_KEY" in ours.trouble
    assert ours.trouble in caplog.text
    assert key not in caplog.text
    assert cloud.asked == []


async def test_nothing_secret_is_in_any_log_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("huggingface", "cloudflare", "twilio"):
        ours = relays(Cloud(httpx.Response(200, json=CLOUDFLARES)), Time(), name)
        servers = await ours.servers()
        offer = Offer(call="rtc_1", sdp="v=0", relays=servers)
        logging.getLogger("voxrtc").debug("%r %r %r %s", ours, provider(name, "our-id", KEY), offer, servers)
    logging.getLogger("voxrtc").debug("%r", provider(TURNS, "", KEY))
    assert "IceServer(turns:turn.example.org:443" in caplog.text
    assert KEY not in caplog.text
    assert PASSWORD not in caplog.text
    assert PASSWORD.encode() in encode(offer), "the media process gets it"


async def test_nor_in_what_the_http_library_says(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a real connection, which it tells of step by step."""
    service, keys = FastAPI(), []

    @service.post("/{key}")
    async def generate(key: str, authorization: Annotated[str, Header()]) -> dict[str, object]:
        keys.append(authorization)
        return CLOUDFLARES

    caplog.set_level(logging.DEBUG)
    with serving(service) as (host, port):
        monkeypatch.setattr(turn, "CLOUDFLARE", f"http://{host}:{port}/{{key}}")
        ours = Relays(provider("cloudflare", "our-id", KEY))
        assert len(await ours.servers()) == 2
        await ours.close()
    assert keys == [f"Bearer {KEY}"]
    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    assert KEY not in caplog.text
    assert PASSWORD not in caplog.text


def test_an_answer_of_another_kind_is_an_error() -> None:
    for body in (b"", b"[]", b'{"iceServers": 3}', json.dumps({"error": PASSWORD}).encode()):
        with pytest.raises(TurnError) as wrong:
            read_servers(body)
        assert PASSWORD not in str(wrong.value)


@pytest.mark.parametrize(
    ("urls", "chosen"),
    [
        (["turn:a:3478?transport=udp", "turn:a:80?transport=tcp", "turns:a:5349?transport=tcp", TURNS], TURNS),
        (["turn:a:3478", "turns:a:5349?transport=tcp"], "turns:a:5349?transport=tcp"),
        (["turn:a:3478", "turn:a:80?transport=tcp"], "turn:a:80?transport=tcp"),
        (["turn:a:3478"], "turn:a:3478"),
        (["stun:a:3478"], None),
        (["turns:[2001:db8::1]:443", "turn:a:port", "turn:a:3478"], "turn:a:3478"),
        (["turns:a:443?transport=udp", "turn:a:3478?transport=sctp"], None),
    ],
)
def test_our_side_takes_the_one_relay_that_gets_through_most(urls: list[str], chosen: str | None) -> None:
    servers = ice.configuration("", [IceServer(urls=urls, username="u", credential="c")]).iceServers
    assert servers is not None
    assert [server.urls for server in servers] == ([chosen] if chosen else [])
    assert all((server.username, server.credential) == ("u", "c") for server in servers)
