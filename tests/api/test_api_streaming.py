"""What only real sockets show: sound that leaves as it is made; listeners that go, stall, are cut off."""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.decoding import decode
from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from voxrtc.api.app import build_app
from voxrtc.api.encoders import ENCODERS
from voxrtc.listening import UNREAD_FOR, listen
from voxrtc.messages.engine import Cancel, Chunk, Ended, EngineReply, EngineRequest, Failed, Generate, Playout
from voxrtc.settings import Settings

Address = tuple[str, int]
RATE = 24_000


class HandEngine(ToneTransport):
    """Says what the test tells it to, when the test tells it, from the test's own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: queue.Queue[EngineRequest] = queue.Queue()

    def send(self, request: EngineRequest) -> None:
        self.loop = asyncio.get_running_loop()
        self.asked.put(request)

    def expect(self, kind: type[Any], seconds: float = 5.0) -> Any:
        """The next request of this kind. Raises `queue.Empty` when none comes for that long."""
        while not isinstance(request := self.asked.get(timeout=seconds), kind):
            pass
        return request

    def say(self, reply: EngineReply) -> None:
        self.loop.call_soon_threadsafe(self.on_reply, reply)

    def sing(self, stream: str, seconds: float) -> None:
        """A chunk of 440 Hz."""
        tone = 8_000 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * RATE)) / RATE)
        self.say(Chunk(stream=stream, index=0, pcm=tone.astype("<i2").tobytes(), sample_rate=RATE))

    def end(self, stream: str) -> None:
        self.say(Ended(stream=stream, reason="done", frames=1))


@pytest.fixture
def engine() -> HandEngine:
    return HandEngine()


@pytest.fixture
def address(engine: HandEngine) -> Iterator[Address]:
    with serving(build_app(tones(engine), EchoMedia())) as address:
        yield address


def ask(address: Address, receive_buffer: int | None = None, **fields: str) -> http.client.HTTPConnection:
    """A request that is sent and not waited for. `receive_buffer`: bytes that the kernel may take for us unread."""
    connection = http.client.HTTPConnection(*address, timeout=5)
    if receive_buffer:
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.sock.connect(address)
    request(connection, **fields)
    return connection


def request(connection: http.client.HTTPConnection, **fields: str) -> None:
    body = json.dumps({"input": "Hello.", "response_format": "pcm", **fields})
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})


def samples(data: bytes, name: str) -> int:
    return len(data) // 2 if name == "pcm" else len(decode(data)[0])


@pytest.mark.parametrize("name", list(ENCODERS))
def test_the_first_chunk_is_heard_before_there_is_a_second(engine: HandEngine, address: Address, name: str) -> None:
    connection = ask(address, response_format=name)
    stream = engine.expect(Generate).stream
    engine.sing(stream, 0.3)
    answer = connection.getresponse()
    heard = answer.read1()
    while samples(heard, name) < 0.2 * RATE:
        heard += answer.read1()  # times out when that is all that comes
    engine.end(stream)
    assert samples(heard + answer.read(), name) >= 0.3 * RATE


def test_a_connection_serves_the_next_request_too(
    engine: HandEngine, address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "voxrtc")
    connection = http.client.HTTPConnection(*address, timeout=5)
    for _ in range(2):
        request(connection)
        stream = engine.expect(Generate).stream
        engine.sing(stream, 0.1)
        engine.end(stream)
        assert len(connection.getresponse().read()) == 0.1 * RATE * 2
    assert "left" not in caplog.text


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_closing_the_connection_cancels_the_stream_at_once(engine: HandEngine, address: Address, chunks: int) -> None:
    connection = ask(address)
    stream = engine.expect(Generate).stream
    for _ in range(chunks):
        engine.sing(stream, 0.1)
        engine.expect(Playout)
    connection.close()
    assert engine.expect(Cancel) == Cancel(stream=stream), "though there is nothing more to send"


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
@pytest.mark.parametrize("name", ["pcm", "mp3"])
def test_a_stream_that_breaks_is_not_taken_for_a_whole_one(
    engine: HandEngine, address: Address, caplog: pytest.LogCaptureFixture, name: str, stream_format: str
) -> None:
    connection = ask(address, response_format=name, stream_format=stream_format)
    stream = engine.expect(Generate).stream
    engine.sing(stream, 0.3)
    engine.say(Failed(stream=stream, code="engine_error", message="The model broke."))
    answer = connection.getresponse()
    assert answer.status == 200
    with pytest.raises(http.client.IncompleteRead) as cut:
        answer.read()
    if stream_format == "sse":
        told = json.loads(cut.value.partial.split(b"data: ")[-1])
        assert told == {"type": "error", "error": {"code": "engine_error", "message": "The model broke."}}
    assert "The model broke." in caplog.text
    assert "Traceback" not in caplog.text


def test_a_lost_engine_cuts_its_listeners_off(engine: HandEngine, address: Address) -> None:
    connection = ask(address)
    engine.sing(engine.expect(Generate).stream, 0.3)
    engine.expect(Playout)
    engine.loop.call_soon_threadsafe(engine.lose)
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()


def sing_until_stalled(engine: HandEngine, stream: str) -> int:
    """Play an engine that keeps one second ahead of its listener. The seconds sung until the listener takes no more."""
    for sung in range(1, 200):  # 10 MB: far beyond what kernels buffer
        engine.sing(stream, 1.0)
        try:
            engine.expect(Playout, seconds=0.5)
        except queue.Empty:
            return sung
    raise AssertionError("the playout clock ran on without a reader")


def test_a_listener_who_stops_reading_stops_the_playout_clock(engine: HandEngine, address: Address) -> None:
    connection = ask(address, receive_buffer=65_536)
    stream = engine.expect(Generate).stream
    sung = sing_until_stalled(engine, stream)
    engine.end(stream)
    assert len(connection.getresponse().read()) == sung * RATE * 2
    assert engine.expect(Playout).taken == sung


def test_leaving_while_stalled_cancels_too(engine: HandEngine, address: Address) -> None:
    connection = ask(address, receive_buffer=65_536)
    stream = engine.expect(Generate).stream
    sing_until_stalled(engine, stream)
    connection.close()
    assert engine.expect(Cancel) == Cancel(stream=stream)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system does not tell who reads nothing")
def test_who_reads_nothing_for_long_gives_the_place_back(engine: HandEngine) -> None:
    with listen(Settings(host="127.0.0.1", port=0)) as listener:
        ours = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) / 1000
    assert ours == UNREAD_FOR
    with serving(build_app(tones(engine), EchoMedia()), unread_for=0.5) as address:
        connection = ask(address, receive_buffer=65_536)
        stream = engine.expect(Generate).stream
        for _ in range(200):  # 10 MB
            engine.sing(stream, 1.0)
        assert engine.expect(Cancel) == Cancel(stream=stream), "though it is still there"
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            connection.getresponse().read()
