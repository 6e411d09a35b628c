"""HTTP requests that are nearly right, to every route there is: answered with what is wrong, never with 500, and whoever
listens meanwhile gets all of it."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.fake_engine import ToneTransport
from tests.fake_media import EchoMedia
from tests.fuzz import mutate
from tests.fuzz.test_events import SESSION
from voxrtc.api.app import build_app
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet

pytestmark = pytest.mark.anyio
SDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"
RECORDING = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00" + bytes(200)).decode()
BODIES: dict[str, Any] = {
    "/v1/audio/speech": {"model": "tone", "input": "one", "voice": "default", "response_format": "pcm", "ref_audio": RECORDING},
    "/v1/realtime/calls": {
        "sdp": SDP,
        "session": SESSION,
        "resume": {"token": "t", "received": 3, "line": "rtc_1", "heard": 9},
    },
    "/v1/voxrtc/crowd": {"listeners": 1, "peers": 0, "model": "tone"},
    "/v1/voxrtc/policy": {"policy": "fifo"},
}
KINDS = [
    "application/json",
    "application/sdp",
    "multipart/form-data; boundary=b",
    "text/plain",
    "application/json; charset=x",
    "",
]
ENDLESS = ("/v1/voxrtc/live", "/v1/voxrtc/queue")  # server-sent events


@pytest.fixture
async def http(media: EchoMedia) -> AsyncIterator[httpx.AsyncClient]:
    engines = Fleet({"tone": ToneTransport()})
    app = build_app(engines, media, crowd=Crowd(engines, most=2))  # type: ignore[arg-type]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://voxrtc"
    ) as client:
        yield client


@pytest.fixture
def media() -> EchoMedia:
    return EchoMedia()


def body(rng: random.Random, path: str, kind: str) -> bytes:
    valid = BODIES.get(path, {"name": "tone"})
    if kind.startswith("multipart"):
        parts = [
            f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{json.dumps(each)}\r\n'
            for name, each in valid.items()
        ]
        return mutate.text(rng, "".join([*parts, "--b--\r\n"])).encode(errors="surrogatepass")
    changed = mutate.text(rng, SDP) if kind == "application/sdp" else mutate.message(rng, valid)
    return changed.encode(errors="surrogatepass")


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.chaos)])
async def test_no_request_is_unforeseen(count: int, http: httpx.AsyncClient) -> None:
    rng = random.Random(count)
    routes = [
        (method, path) for path, methods in (await http.get("/openapi.json")).json()["paths"].items() for method in methods
    ]
    routes = [route for route in routes if route[1] not in ENDLESS]
    assert {"/v1/audio/speech", "/v1/realtime/calls", "/metrics"} <= {path for _, path in routes}
    listener = asyncio.create_task(http.post("/v1/audio/speech", json={"input": "word " * 200, "response_format": "pcm"}))
    seen: set[int] = set()
    for _ in range(count):
        method, path = rng.choice(routes) if rng.random() < 0.5 else ("post", rng.choice(list(BODIES)))
        name = quote(rng.choice(["tone", "..", "../../etc/passwd", "\0", "x" * 900, "%", "tone/", "é"]), safe="")
        where = path.replace("{name}", name).replace("{call}", name)
        query = rng.choice(["", "", "?model=tone", "?format=csv", "?model=%00", "?ticket=" + "t" * 2000, "?a[b]=c&&=%zz"])
        kind = "application/json" if rng.random() < 0.5 else rng.choice(KINDS)
        async with asyncio.timeout(10):
            answer = await http.request(method, where + query, content=body(rng, path, kind), headers={"Content-Type": kind})
        assert answer.status_code < 500 or answer.status_code == 503, (method, where, query, kind, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"], answer.text
        seen.add(answer.status_code)
    assert {200, 400, 404, 415} <= seen
    assert len((await listener).content) == 200 * 4800
