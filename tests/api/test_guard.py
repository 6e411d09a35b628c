"""Keys, logins, other sites' pages, and what is too large: around all routes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from voxrtc.api import login
from voxrtc.api.access import COOKIE, LASTS, Access
from voxrtc.api.app import build_app
from voxrtc.api.guard import OPEN
from voxrtc.api.hosting import Hosting
from voxrtc.api.limits import MAX_BODY, MAX_HEADERS, MAX_RECORDING
from voxrtc.ui.markup import login_form

pytestmark = pytest.mark.anyio

KEY, OTHER, USER, PASSWORD = "k" * 24, "o" * 24, "ann", "open sesame"
BEARER = {"Authorization": f"Bearer {KEY}"}
FRIEND = "https://friend.example"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(tone: ToneTransport, media: EchoMedia, clock: Clock) -> FastAPI:
    access = Access([OTHER, KEY], (USER, PASSWORD), clock)
    app = build_app(tones(tone), media, hosting=Hosting(access=access, origins=frozenset({FRIEND})))  # type: ignore[arg-type]
    app.include_router(login.router(access, *login_form()))
    app.get("/")(lambda: "the page")
    return app


@pytest.fixture
async def locked(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        yield client


def paths(app: FastAPI) -> list[tuple[str, str]]:
    """All that can be asked for over HTTP."""
    there = app.openapi()["paths"].items()
    return [(method.upper(), path.replace("{", "").replace("}", "")) for path, methods in there for method in methods]


async def test_without_a_key_nothing_answers_but_probes_and_the_way_in(app: FastAPI, locked: httpx.AsyncClient) -> None:
    asked = [each for each in paths(app) if each[1] not in OPEN]
    assert len(asked) > 10
    for method, path in [*asked, ("GET", "/openapi.json"), ("GET", "/nowhere"), ("POST", "/gradio_api/queue/join")]:
        answer = await locked.request(method, path, headers={"Origin": "http://voxrtc"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), path
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await locked.get("/healthz")).status_code == (await locked.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    "shown", ["", "Bearer", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", f"Basic {KEY}", "Bearer ", "Bearer \xff\xff"]
)
async def test_what_is_no_key_is_refused(shown: str, locked: httpx.AsyncClient) -> None:
    answer = await locked.get("/v1/models", headers={"Authorization": shown.encode("latin-1")})
    assert answer.status_code == 401
    assert KEY[:-1] not in answer.text


@pytest.mark.parametrize("key", [KEY, OTHER])
async def test_any_of_the_keys_opens(key: str, locked: httpx.AsyncClient) -> None:
    for shown in (f"Bearer {key}", f"bearer  {key}"):
        assert (await locked.get("/v1/models", headers={"Authorization": shown})).status_code == 200


def test_sockets_want_a_key_too(app: FastAPI) -> None:
    with serving(app) as (host, port):
        for path in ("/v1/realtime", "/v1/voxrtc/tunnel", "/nowhere"):
            with pytest.raises(InvalidStatus) as refused, connect(f"ws://{host}:{port}{path}"):
                pass
            assert refused.value.response.status_code == 401
        for ways in ({"additional_headers": BEARER}, {"subprotocols": ["realtime", f"openai-insecure-api-key.{KEY}"]}):
            with connect(f"ws://{host}:{port}/v1/realtime", **ways) as client:  # type: ignore[arg-type]
                client.send('{"type": "voxrtc.ping"}')
                assert json.loads(client.recv(10))["type"] == "voxrtc.ping"
                assert client.subprotocol in (None, "realtime"), "a key is not said back"


# --- the way in ---


async def test_who_logs_in_is_known_by_a_cookie_until_it_is_old(locked: httpx.AsyncClient, clock: Clock) -> None:
    browser = {"Accept": "text/html,*/*"}
    moved = await locked.get("/", headers=browser)
    assert (moved.status_code, moved.headers["location"]) == (303, "login")
    assert 'action="login"' in (await locked.get("/login", headers=browser)).text
    done = await locked.post("/login", data={"username": USER, "password": PASSWORD}, headers=browser)
    assert (done.status_code, done.headers["location"]) == (303, "./")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert (await locked.get("/v1/models")).status_code == 200
    clock.now += LASTS + 1
    assert (await locked.get("/v1/models")).status_code == 401


async def test_a_key_logs_in_and_who_leaves_is_out(locked: httpx.AsyncClient) -> None:
    assert (await locked.post("/login", data={"username": "", "password": KEY})).status_code == 200
    assert (await locked.get("/v1/models")).status_code == 200
    await locked.get("/logout")
    assert (await locked.get("/v1/models")).status_code == 401


async def test_who_has_left_has_no_ticket_any_more(locked: httpx.AsyncClient, clock: Clock) -> None:
    """Not by the cookie that the browser, or a thief, still has; another's login lives on."""
    here, there = [
        (await locked.post("/login", data={"username": USER, "password": PASSWORD})).cookies[COOKIE] for _ in range(2)
    ]
    assert here != there
    locked.cookies.clear()
    ways = [{"Cookie": f"{COOKIE}={each}"} for each in (here, there)]
    assert [(await locked.get("/v1/models", headers=way)).status_code for way in ways] == [200, 200]
    await locked.get("/logout", headers=ways[0])
    assert [(await locked.get("/v1/models", headers=way)).status_code for way in ways] == [401, 200]


def test_logins_that_ended_are_remembered_no_longer_than_they_would_have_held(clock: Clock) -> None:
    access = Access([KEY], None, clock)
    for _ in range(3):
        access.end(access.ticket())
    access.end("9999999999.a.b")
    access.end(f"{OTHER}.é")
    assert access.ended == 3
    clock.now += LASTS + 1
    access.end(access.ticket())
    assert access.ended == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("embedded", [True, False])
async def test_a_cookie_is_taken_back_as_it_was_given(scheme: str, embedded: bool) -> None:
    """Else a browser takes it for another: a frame's own one is kept by the site around it."""
    app, access = FastAPI(), Access([KEY])
    app.include_router(login.router(access, *login_form(), embedded=embedded))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://voxrtc") as client:
        given = (await client.post("/login", data={"username": "", "password": KEY})).headers["set-cookie"]
        taken = (await client.get("/logout")).headers["set-cookie"]
    framed = scheme == "https" and embedded
    assert ("Partitioned" in given, "SameSite=none" in given, "Secure" in given) == (framed, framed, scheme == "https")

    def attributes(cookie: str) -> set[str]:
        return {each for each in cookie.split("; ")[1:] if not each.startswith(("Max-Age", "expires"))}

    assert attributes(taken) == attributes(given)
    assert "Max-Age=0" in taken


@pytest.mark.parametrize(
    "cookie", ["", ".", "9999999999.", "9999999999.{}".format("0" * 64), "1.a.b", "nan.x", "\u00e9.\u00e9"]
)
async def test_a_cookie_of_ones_own_making_opens_nothing(cookie: str, locked: httpx.AsyncClient) -> None:
    headers = {"Cookie": f"{COOKIE}={cookie}".encode("latin-1")}
    assert (await locked.get("/v1/models", headers=headers)).status_code == 401


async def test_passwords_cannot_be_tried_out(locked: httpx.AsyncClient) -> None:
    for wrong in ({"username": USER, "password": "x"}, {"username": "bob", "password": PASSWORD}, {}):
        assert (await locked.post("/login", data=wrong)).status_code == 401
    page = await locked.post("/login", data={"password": "x"}, headers={"Accept": "text/html"})
    assert page.status_code == 401 and "is wrong" in page.text
    tries = [await locked.post("/login", data={"password": str(number)}) for number in range(login.A_MINUTE)]
    assert (tries[-1].status_code, tries[-1].json()["error"]["code"]) == (429, "too_often")
    right = await locked.post("/login", data={"username": USER, "password": PASSWORD})
    assert right.status_code == 429


# --- other sites ---


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://voxrtc.evil.example", "http://voxrtc:81", f"{FRIEND}.evil"]
)
async def test_pages_of_other_sites_change_nothing(
    origin: str, app: FastAPI, locked: httpx.AsyncClient, tone: ToneTransport
) -> None:
    before = len(tone.requests)
    for method, path in paths(app):
        if method not in ("GET", "HEAD") or path.startswith("/v1/"):
            answer = await locked.request(method, path, headers=BEARER | {"Origin": origin}, json={"input": "one"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_origin"), path
    assert len(tone.requests) == before


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    "referer", [{}, {"Referer": "https://evil.example/a"}, {"Referer": "nonsense"}, {"Referer": "http://["}]
)
async def test_nor_do_pictures_and_frames_of_theirs(
    site: str, referer: dict[str, str], app: FastAPI, locked: httpx.AsyncClient
) -> None:
    """Browsers send no origin with `<img src=…>`."""
    shown = BEARER | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"} | referer
    reading = [path for method, path in paths(app) if method == "GET" and path.startswith("/v1/")]
    for path in [*reading, "/v1/voxrtc/queue", "/gradio_api/heartbeat/a", "/gradio_api/queue/data"]:
        answer = await locked.get(path, headers=shown)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_origin"), path
    for path in ("/", "/healthz", "/login"):
        assert (await locked.get(path, headers=shown)).status_code == 200, "a link leads to the page"


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_what_the_page_and_people_open_is_not_foreign(site: str, locked: httpx.AsyncClient) -> None:
    assert (await locked.get("/v1/models", headers=BEARER | {"Sec-Fetch-Site": site})).status_code == 200


async def test_an_origin_that_is_none_is_refused(locked: httpx.AsyncClient) -> None:
    for origin in ("http://[", "://", "nonsense"):
        assert (await locked.get("/v1/models", headers=BEARER | {"Origin": origin})).status_code == 403


async def test_pages_of_trusted_sites_do_what_ours_does(locked: httpx.AsyncClient) -> None:
    there = BEARER | {"Origin": FRIEND}
    asked = {"Origin": FRIEND, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    leave = await locked.options("/v1/audio/speech", headers=asked)
    assert (leave.status_code, leave.headers["access-control-allow-origin"]) == (200, FRIEND)
    answer = await locked.post("/v1/audio/speech", json={"input": "one"}, headers=there)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, FRIEND)
    assert FRIEND in answer.headers["content-security-policy"].partition("frame-ancestors")[2]
    picture = BEARER | {"Sec-Fetch-Site": "cross-site", "Referer": f"{FRIEND}/"}
    assert (await locked.get("/v1/models", headers=picture)).status_code == 200
    other = await locked.options("/v1/audio/speech", headers=asked | {"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


# --- what is too large, and what every answer says ---


async def test_headers_and_bodies_are_bounded_everywhere(locked: httpx.AsyncClient, app: FastAPI) -> None:
    large = await locked.get("/healthz", headers={f"X-{number}": "x" * 1000 for number in range(1 + MAX_HEADERS // 1000)})
    assert (large.status_code, large.json()["error"]["code"]) == (431, "too_large")

    @app.post("/anything")
    async def anything(request: dict[str, str]) -> None: ...

    app.post("/gradio_api/anything")(anything)
    for path, most in (("/anything", MAX_BODY + MAX_RECORDING), ("/gradio_api/anything", MAX_BODY)):
        for size, status in ((most - 10, 200), (most, 413)):
            body = b'{"a": "%s"}' % (b"x" * size)
            answer = await locked.post(path, content=body, headers=BEARER | {"Content-Type": "application/json"})
            assert answer.status_code == status, path


async def test_browsers_are_told_what_not_to_do(locked: httpx.AsyncClient) -> None:
    for answer in (await locked.get("/v1/models"), await locked.get("/healthz"), await locked.get("/login")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
        assert "object-src 'none'" in answer.headers["content-security-policy"]


async def test_browsers_keep_what_never_changes_and_nothing_else(app: FastAPI, locked: httpx.AsyncClient) -> None:
    app.get("/assets/page-DiEEvXS6.js")(lambda: "Gradio's")
    for path, kept in (("/assets/page-DiEEvXS6.js", True), ("/assets/gone-DiEEvXS6.js", False), ("/", False)):
        told = (await locked.get(path, headers=BEARER)).headers.get("Cache-Control", "")
        assert ("immutable" in told and "private" in told) == kept, path
