"""`/v1/voxrtc/tunnel` over a real WebSocket; the media process behind it is an echo."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.api.test_api_socket import last_words
from tests.chat.stage import until
from tests.fake_engine import tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from voxrtc.api import tunnel as module
from voxrtc.api.app import build_app
from voxrtc.api.limits import MAX_BODY
from voxrtc.chat.media_client import CallRefused
from voxrtc.messages.media import Resume

pytestmark = pytest.mark.anyio
HELLO = json.dumps({"session": {"model": "tone"}, "resume": {"token": "t", "received": 3, "line": "rtc_1", "heard": 7}})


@pytest.fixture
def url(media: EchoMedia) -> Iterator[str]:
    with serving(build_app(tones(), media)) as (host, port):
        yield f"ws://{host}:{port}/v1/voxrtc/tunnel"


@pytest.fixture
async def client(url: str) -> AsyncIterator[ClientConnection]:
    async with connect(url) as client:
        await client.send(HELLO)
        yield client


async def test_packets_and_events_go_both_ways_in_order(client: ClientConnection, media: EchoMedia) -> None:
    await client.send('{"type":"first"}')
    await client.send(b"packet")
    await client.send('{"type":"second"}')
    assert [await client.recv() for _ in range(3)] == ['{"type":"first"}', b"packet", '{"type":"second"}']
    (tunnel,) = media.tunnels
    assert (tunnel.session, tunnel.resume) == ({"model": "tone"}, Resume("t", 3, "rtc_1", 7))


@pytest.mark.parametrize(("code", "end"), [(1000, "hung up"), (4002, "lost")])
async def test_who_hangs_up_is_told_from_who_is_lost(client: ClientConnection, media: EchoMedia, code: int, end: str) -> None:
    await client.send(b"packet")
    await client.recv()
    await client.close(code)
    await until(lambda: media.ends)
    assert media.ends == [end] and not media.sockets


async def test_a_connection_that_breaks_is_lost(client: ClientConnection, media: EchoMedia) -> None:
    await client.send(b"packet")
    await client.recv()
    client.transport.abort()
    await until(lambda: media.ends)
    assert media.ends == ["lost"]


UNSENDABLE = [
    '{"session": {"x": 18446744073709551616}}',
    '{"session": {"x": ' + "[" * 2000 + "]" * 2000 + "}}",
    '{"resume": {"received": 1000000000000000000000000000000}}',
    '{"resume": {"heard": 18446744073709551615}}',
    '{"resume": {"received": -1}}',
    '{"session": {"instructions": "' + "x" * MAX_BODY + '"}}',
]


@pytest.mark.parametrize("hello", ["nonsense", "[]", '{"resume": {"token": 3}}', b"packet", *UNSENDABLE])
async def test_a_first_message_that_is_none_is_told(url: str, media: EchoMedia, hello: str | bytes) -> None:
    async with connect(url) as client:
        await client.send(hello)
        error, how = await last_words(client)
    assert (error["code"], how, media.tunnels) == ("invalid_request", 4000, [])


async def test_who_says_nothing_first_is_let_go(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELLO_WITHIN", 0.05)
    async with connect(url) as client:
        assert (await last_words(client))[1] == 4000


@pytest.mark.parametrize(("status", "code", "closed"), [(404, "session_gone", 4000), (503, "too_many_calls", 1013)])
async def test_a_refusal_is_told_before_the_end(url: str, media: EchoMedia, status: int, code: str, closed: int) -> None:
    media.refusal = CallRefused(status, code, "Not this one.")
    async with connect(url) as client:
        await client.send(HELLO)
        error, how = await last_words(client)
    assert (error["code"], error["message"], how) == (code, "Not this one.", closed)


async def test_pages_of_others_are_refused(url: str, media: EchoMedia) -> None:
    async with connect(url, origin="https://elsewhere.example") as client:  # type: ignore[arg-type]
        error, how = await last_words(client)
    assert (error["code"], how, media.tunnels) == ("cross_origin", 1008, [])


async def test_a_tunnel_that_is_over_is_closed(client: ClientConnection, media: EchoMedia) -> None:
    """Its browser has another line."""
    await client.send(b"packet")
    await client.recv()
    (listener,) = media.sockets.values()
    listener(None)
    with pytest.raises(ConnectionClosed):
        await client.recv()
    assert client.close_code == 4001


async def test_what_is_too_large_is_told_and_the_call_lives_on(client: ClientConnection, media: EchoMedia) -> None:
    await client.send(b"x" * (module.LARGEST + 1))
    await client.send("x" * (1 << 17))
    await client.send(b"packet")
    first, second, third = [await client.recv() for _ in range(3)]
    assert (json.loads(first)["error"]["code"], json.loads(second)["error"]["code"]) == ("packet_too_large", "event_too_large")
    assert (third, media.said) == (b"packet", [])


async def test_who_sends_packets_too_fast_waits(client: ClientConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own connection: none is lost, and none comes early."""
    monkeypatch.setattr(module, "FASTEST", 1_000)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    for number in range(100):
        await client.send(bytes([number]))
    assert [await client.recv() for _ in range(100)] == [bytes([number]) for number in range(100)]
