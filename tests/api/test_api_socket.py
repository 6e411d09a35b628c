"""`/v1/realtime` over a real WebSocket; the media process behind it is an echo."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.chat.stage import until
from tests.fake_engine import tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from voxrtc.api import socket as module
from voxrtc.api.app import build_app
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.socket import MAX_EVENT

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(media: EchoMedia) -> Iterator[str]:
    with serving(build_app(tones(), media)) as (host, port):
        yield f"ws://{host}:{port}/v1/realtime"


@pytest.fixture
async def client(url: str) -> AsyncIterator[ClientConnection]:
    async with connect(f"{url}?model=tone") as client:
        yield client


async def last_words(client: ClientConnection) -> tuple[dict[str, Any], int]:
    """The error that is told, and the code of the closing that follows."""
    error = json.loads(await client.recv())["error"]
    with pytest.raises(ConnectionClosed):
        await client.recv()
    assert client.close_code
    return error, client.close_code


async def test_events_go_to_the_session_and_come_from_it(client: ClientConnection, media: EchoMedia) -> None:
    await client.send('{"type":"first"}')
    await client.send('{"type":"second"}')
    assert [await client.recv(), await client.recv()] == ['{"type":"first"}', '{"type":"second"}']
    assert media.sessions == [{"model": "tone"}]
    await client.close()
    await until(lambda: not media.sockets)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["realtime", "openai-insecure-api-key.none", "openai-agents-sdk.1"], "realtime"), ([], None)],
)
async def test_stock_clients_are_let_in(url: str, media: EchoMedia, offered: list[str], chosen: str | None) -> None:
    headers = {"Authorization": "Bearer none", "OpenAI-Beta": "realtime=v1"}
    async with connect(url, subprotocols=offered or None, additional_headers=headers) as client:  # type: ignore[arg-type]
        assert client.subprotocol == chosen
        await client.send("{}")
        assert await client.recv() == "{}"
    assert media.sessions == [{}]


@pytest.mark.parametrize(
    ("status", "code", "closed"), [(400, "model_not_found", 4000), (503, "too_many_calls", 1013), (503, "media_lost", 1013)]
)
async def test_a_refusal_is_told_before_the_end(url: str, media: EchoMedia, status: int, code: str, closed: int) -> None:
    media.refusal = CallRefused(status, code, "Not this one.")
    async with connect(url) as client:
        error, how = await last_words(client)
    assert (error["code"], error["message"], how) == (code, "Not this one.", closed)


async def test_pages_of_others_are_refused(url: str, media: EchoMedia) -> None:
    async with connect(url, origin="https://elsewhere.example") as client:  # type: ignore[arg-type]
        error, how = await last_words(client)
    assert (error["code"], how, media.sessions) == ("cross_origin", 1008, [])
    own = url.replace("ws://", "http://").removesuffix("/v1/realtime")
    async with connect(url, origin=own) as client:  # type: ignore[arg-type]
        await client.send("{}")
        assert await client.recv() == "{}"


async def test_a_call_cannot_be_joined(url: str) -> None:
    async with connect(f"{url}?call_id=rtc_1") as client:
        error, how = await last_words(client)
    assert (error["code"], how) == ("invalid_value", 4000)


async def test_what_is_no_event_is_told_and_the_session_lives_on(client: ClientConnection, media: EchoMedia) -> None:
    await client.send(b"\x00\x01")
    await client.send("x" * (MAX_EVENT + 1))
    await client.send("{}")
    first, second, third = [await client.recv() for _ in range(3)]
    assert (json.loads(first)["error"]["code"], json.loads(second)["error"]["code"]) == ("invalid_event", "event_too_large")
    assert (third, media.said) == ("{}", ["{}"])


async def test_a_dead_media_process_is_told(client: ClientConnection, media: EchoMedia) -> None:
    await client.send("{}")
    await client.recv()
    (listener,) = media.sockets.values()
    listener(None)
    error, how = await last_words(client)
    assert (error["code"], how) == ("media_lost", 1013)


async def test_who_does_not_read_is_let_go(url: str, media: EchoMedia, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody else, however much it is told."""
    monkeypatch.setattr(module, "UNREAD", 1 << 20)
    async with connect(url, compression=None) as slow, connect(url) as other:
        for client in (other, slow):
            await client.send("{}")
            await client.recv()
        slow.transport.pause_reading()
        (_, tell_slow), (_, tell_other) = media.sockets.items()
        for _ in range(400):
            tell_slow("x" * 100_000)
            tell_other("x" * 100_000)
            assert len(await other.recv()) == 100_000
            if len(media.sockets) == 1:
                break
        assert list(media.sockets.values()) == [tell_other]
        slow.transport.abort()


async def test_events_come_in_order_however_many(client: ClientConnection) -> None:
    count = 200
    sending = asyncio.ensure_future(send_all(client, count))
    assert [json.loads(await client.recv())["n"] for _ in range(count)] == list(range(count))
    await sending


async def send_all(client: ClientConnection, count: int) -> None:
    for number in range(count):
        await client.send(json.dumps({"n": number}))
