from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from voxrtc.api.app import build_app
from voxrtc.api.hosting import Hosting
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.chat.switchboard import Switchboard
from voxrtc.messages import decode, encode
from voxrtc.messages.media import IceServer, MediaRequest
from voxrtc.rtc import turn
from voxrtc.rtc.turn import AGAIN, FRESH, Relays, TurnError

pytestmark = pytest.mark.anyio
PATH = "/v1/realtime/calls"
SDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\n"
SESSION = {"type": "realtime", "model": "tone", "audio": {"output": {"voice": "default"}}}
OFFERS: dict[str, dict[str, Any]] = {
    "sdp": {"content": SDP, "headers": {"Content-Type": "application/sdp"}},
    "json": {"json": {"sdp": SDP, "session": SESSION}},
    "json without session": {"json": {"sdp": SDP}},
    "form": {"files": {"sdp": (None, SDP), "session": (None, json.dumps(SESSION))}},
    "form of blobs": {"files": {"sdp": ("blob", SDP, "application/sdp"), "session": ("blob", json.dumps(SESSION))}},
    "form without session": {"files": {"sdp": (None, SDP)}},
}


@pytest.mark.parametrize("form", list(OFFERS))
async def test_every_form_of_an_offer_is_answered(http: httpx.AsyncClient, media: EchoMedia, form: str) -> None:
    answer = await http.post(PATH, **OFFERS[form])
    assert (answer.status_code, answer.headers["content-type"], answer.text) == (201, "application/sdp", SDP)
    ((call, offer),) = media.calls.items()
    assert call.startswith("rtc_")
    assert answer.headers["location"] == f"{PATH}/{call}"
    assert offer.sdp == SDP
    assert offer.session == (SESSION if form in ("json", "form", "form of blobs") else {})


async def test_the_query_names_the_model_unless_the_session_does(http: httpx.AsyncClient, media: EchoMedia) -> None:
    await http.post(f"{PATH}?model=other", **OFFERS["sdp"])
    await http.post(f"{PATH}?model=other", **OFFERS["json"])
    assert [offer.session["model"] for offer in media.calls.values()] == ["other", "tone"]


async def test_hanging_up_both_ways(http: httpx.AsyncClient, media: EchoMedia) -> None:
    first, second = [(await http.post(PATH, **OFFERS["sdp"])).headers["location"] for _ in range(2)]
    assert (await http.delete(first)).status_code == 204
    assert (await http.post(f"{second}/hangup")).status_code == 200
    assert not media.calls
    for gone in (await http.delete(first), await http.post(f"{second}/hangup")):
        assert gone.status_code == 404
        assert gone.json()["error"]["code"] == "call_not_found"


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (415, "text/plain", SDP),
        (415, "", SDP),
        (400, "application/sdp", b"\xff\xfe"),
        (400, "application/sdp", b" \r\n"),
        (413, "application/sdp", b"v" * (64 * 1024 + 1)),
        (413, "application/sdp", b"v" * (300 * 1024)),
        (400, "application/json", b"{"),
        (400, "application/json", b"\xff"),
        (400, "application/json", b"[]"),
        (400, "application/json", b"{}"),
        (400, "application/json", b'{"sdp": 3}'),
        (400, "application/json", b'{"sdp": "v=0", "session": "tone"}'),
        (400, "application/json", b'{"sdp": "\\ud800"}'),
        (400, "application/json", b"[" * 50_000),
        (400, "application/json", b'{"sdp": "v=0", "session": {"x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"),
        (400, "application/json", b'{"sdp": "v=0", "session": {"x": 99999999999999999999}}'),
        (400, "application/json", b'{"sdp": "v=0", "resume": {"received": ' + b"9" * 30 + b"}}"),
        (400, "application/json", b'{"sdp": "v=0", "resume": {"heard": 18446744073709551615}}'),
        (400, "application/json", b'{"sdp": "v=0", "resume": {"heard": -1}}'),
        (400, "multipart/form-data", b"x"),
        (400, "multipart/form-data; boundary=a", b"x"),
    ],
)
async def test_a_bad_offer_is_refused(http: httpx.AsyncClient, media: EchoMedia, status: int, kind: str, body: bytes) -> None:
    answer = await http.post(PATH, content=body, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert not media.calls


async def test_however_deep_a_session_is_nested_it_can_be_sent_on_or_is_refused(http: httpx.AsyncClient) -> None:
    statuses = set()
    for depth in range(1, 1_200, 7):
        body = '{"sdp": "v=0", "session": {"x": ' + "[" * depth + "]" * depth + "}}"
        statuses.add((await http.post(PATH, content=body, headers={"Content-Type": "application/json"})).status_code)
    assert statuses == {201, 400}


@pytest.mark.parametrize(
    "files",
    [
        {"session": (None, "{}")},
        {"sdp": (None, SDP), "session": (None, "{")},
        {"sdp": (None, SDP), "session": (None, "[]")},
    ],
)
async def test_a_bad_form_is_refused(http: httpx.AsyncClient, files: dict[str, Any]) -> None:
    answer = await http.post(PATH, files=files)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(("status", "code"), [(503, "busy"), (503, "media_lost"), (400, "invalid_sdp")])
async def test_a_refusal_of_the_media_process_is_passed_on(
    http: httpx.AsyncClient, media: EchoMedia, status: int, code: str
) -> None:
    media.refusal = CallRefused(status, code, "Not this one.")
    for answer in (await http.post(PATH, **OFFERS["sdp"]), await http.delete(f"{PATH}/rtc_1")):
        fault = answer.json()["error"]
        assert (answer.status_code, fault["code"], fault["message"]) == (status, code, "Not this one.")
        assert ("retry-after" in answer.headers) == (status == 503)


async def test_a_media_process_that_is_not_there_is_503(tone: ToneTransport, tmp_path: Path) -> None:
    media = Switchboard({"media": MediaClient(f"ipc://{tmp_path / 'media'}")})
    transport = httpx.ASGITransport(build_app(tones(tone), media))
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        answer = await client.post(PATH, **OFFERS["sdp"])
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "media_lost")
        assert "retry-after" in answer.headers
        assert (await client.delete(f"{PATH}/rtc_1")).status_code == 404, "what it had is over"
    await media.close()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
sessions = st.dictionaries(st.text(max_size=8), anything)


@settings(max_examples=100, deadline=None)
@given(body=anything | st.fixed_dictionaries({"sdp": st.just(SDP)}, optional={"session": sessions}))
def test_any_json_gives_a_call_that_can_be_sent_on_or_a_client_error(body: Any) -> None:
    media = EchoMedia()
    answer = asyncio.run(_post(media, body))
    assert answer.status_code == 201 or 400 <= answer.status_code < 500
    for offer in media.calls.values():
        assert decode(encode(offer), MediaRequest) == offer


async def _post(media: EchoMedia, body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(build_app(tones(), media))
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        return await client.post(PATH, content=json.dumps(body), headers={"Content-Type": "application/json"})


class Relay:
    """A provider with one TURN server."""

    name = "Relay"
    server = IceServer(urls=["turns:turn.example.org:443"], username="u", credential="c")

    async def servers(self, _: httpx.AsyncClient) -> list[IceServer]:
        return [self.server]


@pytest.mark.parametrize("relayed", [True, False])
async def test_pages_get_relays_and_so_does_our_side_where_it_needs_them(relayed: bool, media: EchoMedia) -> None:
    transport = httpx.ASGITransport(build_app(tones(), media, hosting=Hosting(Relays(Relay()), relayed)))
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        answer = await client.get("/v1/voxrtc/ice")
        await client.post(PATH, **OFFERS["sdp"])
    assert answer.headers["cache-control"] == "no-store"
    (server,) = answer.json()["iceServers"]
    assert server == {"urls": ["turns:turn.example.org:443"], "username": "u", "credential": "c"}
    assert (answer.json()["gather"], answer.json()["keep"]) == (relayed, FRESH)
    assert answer.json()["udp"] is (False if relayed else None), "no server knows that it is reached"
    (offer,) = media.calls.values()
    assert offer.relays == ([Relay.server] if relayed else [])


class Late(Relay):
    """One whose answer takes longer than a call waits, or fails."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure, self.let = failure, asyncio.Event()

    async def servers(self, http: httpx.AsyncClient) -> list[IceServer]:
        if self.failure:
            raise self.failure
        await self.let.wait()
        return await super().servers(http)


@pytest.mark.parametrize("failure", [None, TurnError("No.")])
async def test_that_there_are_no_relays_yet_is_soon_asked_again(
    failure: TurnError | None, media: EchoMedia, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "WITHIN", 0.0)
    provider, clock = Late(failure), [0.0]
    relays = Relays(provider, lambda: clock[0])
    transport = httpx.ASGITransport(build_app(tones(), media, hosting=Hosting(relays, relayed=True)))
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        first = (await client.get("/v1/voxrtc/ice")).json()
        assert (first["iceServers"], first["gather"], first["keep"]) == ([], False, AGAIN)
        provider.failure = None
        provider.let.set()
        clock[0] += AGAIN
        monkeypatch.setattr(turn, "WITHIN", 1.0)
        then = (await client.get("/v1/voxrtc/ice")).json()
    assert (len(then["iceServers"]), then["gather"], then["keep"]) == (1, True, FRESH)
    clock[0] += FRESH
    assert relays.keep == AGAIN, "what is old is not kept for another quarter of an hour"
    await relays.close()


async def test_without_a_relay_there_is_nothing_to_wait_for(http: httpx.AsyncClient) -> None:
    nothing = {"iceServers": [], "keep": FRESH, "gather": False, "udp": None, "message": ""}
    assert (await http.get("/v1/voxrtc/ice")).json() == nothing
