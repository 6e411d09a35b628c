"""An engine in a process of its own. `transport.py` is the way to it.

`python -m voxrtc.engine.process --listen ipc://…`. It ends with the process that started it: its standard input is a pipe
from there, and end of file means that nobody is left to speak for.
"""

from __future__ import annotations

import argparse
import logging
import os
from typing import Protocol

import msgspec
import torch
import zmq

from voxrtc.engine.device import chosen_device, chosen_dtype
from voxrtc.engine.loop import Engine, Reply
from voxrtc.engine.memory import pages_for
from voxrtc.engine.scheduler import POLICIES
from voxrtc.engine.snapshot import ChunkSizes
from voxrtc.engine.worker import PAGE_SIZE, Worker
from voxrtc.lifeline import die_with_parent
from voxrtc.messages import Cancel, Chunk, Ended, EngineReply, EngineRequest, Failed, Generate, Queued, decode, encode
from voxrtc.settings import Settings
from voxrtc.speechlm import registry

log = logging.getLogger(__name__)


class Submits(Protocol):
    """What can be served: an `Engine`, or whatever else takes its requests."""

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        """Called on the server's thread. `reply` may be called from any one thread at a time."""

    def refusal(self, request: Generate) -> Failed | None:
        """Called on the server's thread: why a request need not even be submitted, if that is known."""


class EngineServer:
    """Carries messages between clients' sockets and the engine's thread. Make it before the engine is started."""

    def __init__(self, engine: Submits, address: str) -> None:
        self._engine = engine
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._clients = self._context.socket(zmq.ROUTER)
        self._clients.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a vanished client is an error, on which its streams end
        self._clients.setsockopt(zmq.SNDHWM, 0)
        self._clients.bind(address)
        self._outbox = self._context.socket(zmq.PULL)
        self._outbox.bind("inproc://outbox")
        self._post_box = self._context.socket(zmq.PUSH)  # made here, but the engine's thread's own once that has started
        self._post_box.setsockopt(zmq.SNDHWM, 0)
        self._post_box.connect("inproc://outbox")
        self._owners: dict[str, bytes] = {}  # stream -> client

    def serve(self) -> None:
        """Run until the process ends."""
        poller = zmq.Poller()
        poller.register(self._clients, zmq.POLLIN)
        poller.register(self._outbox, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._clients in ready:
                self._receive(*self._clients.recv_multipart())
            if self._outbox in ready:
                self._send(*self._outbox.recv_multipart())

    def _receive(self, client: bytes, data: bytes) -> None:
        try:
            request: EngineRequest = decode(data, EngineRequest)
        except msgspec.DecodeError as error:
            log.error("a client sent no message of ours: %s", error)
            return
        if isinstance(request, Generate):
            if refusal := self._engine.refusal(request):
                self._send(client, b"", b"over", encode(refusal))
                return
            self._owners[request.stream] = client
        self._engine.submit(request, lambda reply: self._post(client, reply))

    def _post(self, client: bytes, reply: EngineReply) -> None:
        """Called on the engine's thread, which may not touch the clients' socket: hence a socket between threads."""
        stream = "" if not isinstance(reply, Queued | Chunk | Ended | Failed) else reply.stream
        over = b"" if isinstance(reply, Queued | Chunk) else b"over"
        self._post_box.send_multipart([client, stream.encode(), over, encode(reply)])

    def _send(self, client: bytes, stream: bytes, over: bytes, data: bytes) -> None:
        try:
            self._clients.send_multipart([client, data])
        except zmq.ZMQError:
            self._abandon(client)
        if over:
            self._owners.pop(stream.decode(), None)

    def _abandon(self, client: bytes) -> None:
        """A client is gone: nobody listens to its streams."""
        for stream in [name for name, owner in self._owners.items() if owner == client]:
            del self._owners[stream]
            self._engine.submit(Cancel(stream=stream), lambda reply: None)


def main() -> None:
    """Load the model of the settings and serve it."""
    parser = argparse.ArgumentParser(description="A speech engine as a process of its own; settings come from the environment.")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    address = parser.parse_args().listen
    settings = Settings()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s engine %(levelname)s %(message)s")
    die_with_parent()
    os.nice(5)  # a step can wait a moment, a packet of the media process cannot
    torch.set_num_threads(1)  # small matrices: a second thread costs more in hand-over than it computes
    device = chosen_device(settings.device)
    info, model = registry.load(settings.models, settings.model, device, chosen_dtype(settings.dtype, device))
    pages = pages_for(model, settings.max_streams, PAGE_SIZE, settings.kv_memory)
    engine = Engine(
        Worker(model, settings.max_streams, pages),
        info,
        policy=POLICIES[settings.policy],
        max_waiting=settings.max_waiting,
        chunks=ChunkSizes(settings.first_chunk, settings.chunk),
        on_crash=lambda: os._exit(1),
    )
    server = EngineServer(engine, address)
    engine.start()
    log.info("%s is loaded on %s, with %d pages of cache", info.name, device, pages)
    server.serve()


if __name__ == "__main__":
    main()
