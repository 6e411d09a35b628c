"""A server on its way out, over HTTP: who comes is sent away, who is being spoken to is not."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from websockets.sync.client import connect

from tests.api.test_api_streaming import HandEngine
from tests.fake_engine import tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from tests.waiting import until
from voxrtc.api.app import build_app
from voxrtc.api.drain import Drain, Draining
from voxrtc.api.errors import ApiError
from voxrtc.api.hosting import Hosting
from voxrtc.messages.engine import Generate

pytestmark = pytest.mark.anyio
SPEECH, CALLS = "/v1/audio/speech", "/v1/realtime/calls"
OFFER = {"content": "v=0\r\n", "headers": {"Content-Type": "application/sdp"}}


async def test_what_is_under_way_ends_and_nobody_new_is_let_in() -> None:
    hosting, engine = Hosting(), HandEngine()
    app = build_app(tones(engine), EchoMedia(), hosting=hosting)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://voxrtc") as client:
        speaking = asyncio.create_task(client.post(SPEECH, json={"input": "Hello.", "response_format": "pcm"}))
        await until(lambda: not engine.asked.empty())
        stream = engine.expect(Generate).stream
        hosting.drain.begin()
        idle = asyncio.create_task(hosting.drain.idle())

        probe = await client.get("/readyz")
        assert (probe.status_code, probe.json()["status"]) == (503, "not ready") and "Retry-After" in probe.headers
        assert (await client.get("/healthz")).status_code == 200, "it is not to be killed for it"
        for path, body in ((SPEECH, {"json": {"input": "More."}}), (CALLS, OFFER)):
            answer = await client.post(path, **body)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
            assert "try again" in answer.json()["error"]["message"] and "Retry-After" in answer.headers
        assert engine.asked.empty() and not idle.done()

        engine.sing(stream, 0.1)
        engine.end(stream)
        answer = await speaking
        assert (answer.status_code, len(answer.content)) == (200, 4800)
        await asyncio.wait_for(idle, 10)


def test_no_websocket_gets_a_session_then() -> None:
    hosting = Hosting()
    with serving(build_app(tones(), EchoMedia(), hosting=hosting)) as (host, port):  # type: ignore[arg-type]
        hosting.drain.begin()
        for path, hello in (("/v1/realtime", ""), ("/v1/voxrtc/tunnel", "{}")):
            with connect(f"ws://{host}:{port}{path}") as client:
                if hello:
                    client.send(hello)
                assert json.loads(client.recv(10))["error"]["code"] == "shutting_down"


async def test_who_the_host_refuses_is_not_waited_for() -> None:
    class Full:
        def begin(self, call: str, address: str, ticket: str = "") -> None: ...

        def over(self, call: str | None) -> None: ...

        def listen(self, address: str) -> None:
            raise ApiError(429, "too_often", "Please wait.")

    drain = Drain()
    with pytest.raises(ApiError, match="Please wait"):
        Draining(Full(), drain).listen("1.1.1.1")  # type: ignore[arg-type]
    await asyncio.wait_for(drain.idle(), 10)
