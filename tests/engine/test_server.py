"""The engine's socket keeps what is heard for its clients, so many, and as long as they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from tests.fake_engine import TONE_MODEL
from tests.waiting import eventually
from voxrtc.engine import server as served
from voxrtc.engine.server import EngineServer, Reply
from voxrtc.messages import Message, encode
from voxrtc.messages.conversation import Forget, Hear
from voxrtc.messages.engine import EngineRequest, Failed, Generate
from voxrtc.messages.model import Progress, Watch


class Noting:
    """An engine that keeps what it is asked."""

    def __init__(self) -> None:
        self.requests: list[EngineRequest] = []

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        self.requests.append(request)

    def refusal(self, request: Generate) -> Failed | None:
        return None

    @property
    def forgotten(self) -> list[str]:
        return [request.hearing for request in self.requests if isinstance(request, Forget)]


class Served:
    """A server that is turned by hand, and its clients."""

    def __init__(self, address: str) -> None:
        self.address, self.engine, self.server = address, Noting(), EngineServer("tone", address)
        self.server._engine, self.server._progress = self.engine, Progress(state="ready", info=TONE_MODEL)
        self.sockets: list[zmq.Socket[bytes]] = []

    def client(self) -> zmq.Socket[bytes]:
        socket = zmq.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(self.address)
        self.sockets.append(socket)
        return socket

    def take(self, client: zmq.Socket[bytes], request: Message) -> None:
        client.send(encode(request))
        assert self.server._clients.poll(10_000)
        self.server._receive(*self.server._clients.recv_multipart())

    def close(self) -> None:
        ours = self.server
        for socket in (*self.sockets, ours._post_box, ours._news, ours._outbox, ours._clients):
            socket.close(linger=0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Served]:
    house = Served(f"ipc://{tmp_path}/engine")
    yield house
    house.close()


def hear(id: str) -> Hear:
    return Hear(hearing=id, pcm=b"\0\0", sample_rate=16_000, first=True)


def test_the_oldest_of_too_many_is_forgotten(house: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "HEARINGS", 2)
    one, other = house.client(), house.client()
    house.take(other, hear("other's"))
    for id in ("a", "b", "a", "c"):
        house.take(one, hear(id))
    assert house.engine.forgotten == ["a"]
    house.take(one, Forget(hearing="b"))
    house.take(one, hear("d"))
    assert house.engine.forgotten == ["a", "b"], "what is forgotten takes no room"


def test_what_was_heard_for_a_client_that_is_gone_is_forgotten(house: Served) -> None:
    gone, there = house.client(), house.client()
    house.take(gone, Watch())
    for id in ("a", "b"):
        house.take(gone, hear(id))
    house.take(there, hear("c"))
    gone.close(linger=0)

    def asked_again() -> list[str]:
        house.take(there, Watch())  # a restarted process comes in its place
        return house.engine.forgotten

    eventually(asked_again)
    assert house.engine.forgotten == ["a", "b"]
