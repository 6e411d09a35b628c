"""A WebRTC peer of a crowd says why it has no call."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import FastAPI, Response

from tests.serving import serving
from tests.waiting import until
from voxrtc.api import errors
from voxrtc.api.errors import ApiError
from voxrtc.crowd.peer import Peer

pytestmark = pytest.mark.anyio


async def cause_at(server: str) -> str:
    """Why a peer has no call with this server, once it says so."""
    peer = Peer(1, server, "key", "tone", lambda heard: None)
    living = asyncio.create_task(peer.live(0))
    await until(lambda: peer.state.phase == "away")
    living.cancel()
    await asyncio.gather(living, return_exceptions=True)
    return peer.state.cause


async def test_one_that_is_refused_says_why() -> None:
    app = FastAPI()
    errors.install(app)

    @app.post("/v1/realtime/calls")
    async def refuse() -> None:
        raise ApiError(404, "model_not_found", "The model “tone” is not loaded.")

    with serving(app) as (host, port):
        assert await cause_at(f"http://{host}:{port}") == "model_not_found"


async def test_one_that_finds_no_server_says_so() -> None:
    assert await cause_at("http://127.0.0.1:1") == "unreachable"


async def test_one_that_is_answered_by_something_else_takes_it_for_no_answer() -> None:
    app, calls = FastAPI(), 0

    @app.post("/v1/realtime/calls")
    async def answer() -> Response:
        nonlocal calls
        calls += 1
        return Response("<h1>Bad gateway</h1>", 502)

    with serving(app) as (host, port):
        assert await cause_at(f"http://{host}:{port}") == "unreachable" and calls == 1
