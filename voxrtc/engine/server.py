"""The socket of an engine process: open from the start, while the model is still on its way. No torch here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
import zmq

from voxrtc.machine import resident
from voxrtc.messages import decode, encode
from voxrtc.messages.conversation import Forget, Hear, Wrote
from voxrtc.messages.engine import Cancel, Chunk, Ended, EngineReply, EngineRequest, Failed, Generate, Queued
from voxrtc.messages.model import GetUse, ModelInfo, Progress, Unload, Unloaded, Use, Watch

RETRY_AFTER = 5.0  # seconds that one who comes too early is sent away for
HEARINGS = 1024  # of one client that are kept

log = logging.getLogger(__name__)


class Reply(Protocol):
    """Takes the replies to one request."""

    def __call__(self, reply: EngineReply, /) -> None: ...


class Submits(Protocol):
    """What can be served: an `Engine`, or whatever else takes its requests."""

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        """Called on the server's thread. `reply` may be called from any one thread at a time."""

    def refusal(self, request: Generate) -> Failed | None:
        """Called on the server's thread: why a request need not even be submitted, if that is known."""


class EngineServer:
    """Carries messages between clients' sockets and the engine's thread, and tells clients how far the model is.

    One thread loads the model: it calls `tell`, and at last `open`. After that the engine's thread alone speaks.
    """

    def __init__(self, name: str, address: str, secret: bytes = b"") -> None:
        """`secret` is the key of a server that other machines reach: see `transport.dealer`."""
        self._name = name
        self.memory: Callable[[], float] = resident  # GB that the process holds; may be set once the model's device is known
        self._engine: Submits | None = None
        self._progress = Progress(state="loading", stage="starting")
        self._watchers: set[bytes] = set()
        self._owners: dict[str, bytes] = {}  # stream -> client
        self._heard: dict[bytes, dict[str, None]] = {}  # client -> ids of what is heard for it, in their order
        self._used = time.monotonic()  # when a stream last began or ended
        self._background: set[str] = set()  # of these, streams that nobody listens to
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._clients = self._context.socket(zmq.ROUTER)
        self._clients.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a vanished client is an error, on which its streams end
        self._clients.setsockopt(zmq.SNDHWM, 0)
        if secret:
            self._clients.curve_server, self._clients.curve_secretkey = True, secret
        self._clients.bind(address)
        self.address: str = self._clients.getsockopt_string(zmq.LAST_ENDPOINT)  # with its port, if it was to be any
        self._outbox = self._context.socket(zmq.PULL)
        self._outbox.bind(f"inproc://outbox-{id(self)}")
        self._post_box, self._news = self._pusher(), self._pusher()  # the engine's thread's, and the loading thread's

    def _pusher(self) -> zmq.Socket[bytes]:
        """A socket to ours that another thread will use, since a socket belongs to one thread."""
        socket = self._context.socket(zmq.PUSH)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.connect(f"inproc://outbox-{id(self)}")
        return socket

    # --- from the loading thread ---

    def tell(self, progress: Progress) -> None:
        """The model has come so far, or failed."""
        self._news.send_multipart([b"", b"", b"", encode(progress)])

    def open(self, engine: Submits, info: ModelInfo) -> None:
        """The model is ready: streams are let in."""
        self._engine = engine
        self.tell(Progress(state="ready", info=info))

    # --- on the server's own ---

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
                client, stream, over, data = self._outbox.recv_multipart()
                if client:
                    self._send(client, stream, over, data)
                else:
                    self._announce(decode(data, EngineReply))

    def _receive(self, client: bytes, data: bytes) -> None:
        try:
            request: EngineRequest = decode(data, EngineRequest)
        except msgspec.DecodeError as error:
            log.error("a client sent no message of ours: %s", error)
            return
        match request:
            case Watch():
                self._watchers.add(client)
                for watcher in list(self._watchers):  # one that is gone, and for which this one may have come, is noticed
                    self._answer(watcher, self._progress)
            case Hear(hearing=hearing):
                self._keep(client, hearing)
                self._submit(client, request)
            case Forget(hearing=hearing):
                self._heard.get(client, {}).pop(hearing, None)
                self._submit(client, request)
            case Unload():
                self._unload(client, request)
            case GetUse(call=call):
                self._answer(client, Use(call=call, live=self._live, last=self._used, memory=self.memory()))
            case Generate():
                if refusal := self._refusal(request):
                    self._answer(client, refusal)
                else:
                    self._owners[request.stream], self._used = client, time.monotonic()
                    if request.background:
                        self._background.add(request.stream)
                    self._submit(client, request)
            case _:
                self._submit(client, request)

    def _keep(self, client: bytes, hearing: str) -> None:
        kept = self._heard.setdefault(client, {})
        kept[hearing] = None
        if len(kept) > HEARINGS:
            self._forget(kept, next(iter(kept)))

    def _forget(self, kept: dict[str, None], hearing: str) -> None:
        del kept[hearing]
        if self._engine:
            self._engine.submit(Forget(hearing=hearing), lambda reply: None)

    def _submit(self, client: bytes, request: EngineRequest) -> None:
        """To the engine; before there is one, nothing can be meant but a stream that was refused."""
        if self._progress.state == "ready":
            assert self._engine is not None
            self._engine.submit(request, lambda reply: self._post(client, reply))

    def _refusal(self, request: Generate) -> Failed | None:
        def failed(code: str, message: str, retry_after: float | None = None) -> Failed:
            return Failed(stream=request.stream, code=code, message=message, retry_after=retry_after)

        match self._progress:
            case Progress(state="ready"):
                assert self._engine is not None
                return self._engine.refusal(request)
            case Progress(state="loading", words=words):
                message = f"“{self._name}” is being loaded ({words}). Please try again in a few seconds."
                return failed("model_loading", message, RETRY_AFTER)
            case Progress(state="failed", message=why):
                return failed("model_failed", f"“{self._name}” could not be loaded. {why}")
            case _:
                return failed(
                    "model_not_found", f"“{self._name}” has just been unloaded. Choose another model, or load it again."
                )

    def _unload(self, client: bytes, request: Unload) -> None:
        """Refused while anyone listens, else the last word: whoever runs this process ends it upon the answer."""
        live = self._live
        if not live:
            self._announce(Progress(state="unloaded"))
        self._answer(client, Unloaded(call=request.call, live=live))

    @property
    def _live(self) -> int:
        """Streams that somebody listens to."""
        return len(self._owners) - len(self._background)

    def _announce(self, progress: Progress) -> None:
        if self._progress.state == "unloaded":
            return  # a download that is to be ended still reports
        self._progress = progress
        for client in list(self._watchers):
            self._answer(client, progress)

    def _post(self, client: bytes, reply: EngineReply) -> None:
        """Called on the engine's thread, which may not touch the clients' socket: hence a socket between threads."""
        stream = "" if not isinstance(reply, Queued | Chunk | Wrote | Ended | Failed) else reply.stream
        over = b"" if isinstance(reply, Queued | Chunk | Wrote) else b"over"
        self._post_box.send_multipart([client, stream.encode(), over, encode(reply)])

    def _answer(self, client: bytes, reply: EngineReply) -> None:
        self._send(client, b"", b"", encode(reply))

    def _send(self, client: bytes, stream: bytes, over: bytes, data: bytes) -> None:
        try:
            self._clients.send_multipart([client, data])
        except zmq.ZMQError:
            self._abandon(client)
        if over:
            self._owners.pop(stream.decode(), None)
            self._used = time.monotonic()
            self._background.discard(stream.decode())

    def _abandon(self, client: bytes) -> None:
        """A client is gone: nobody listens to its streams."""
        self._watchers.discard(client)
        kept = self._heard.pop(client, {})
        for hearing in list(kept):
            self._forget(kept, hearing)
        for stream in [name for name, owner in self._owners.items() if owner == client]:
            del self._owners[stream]
            self._background.discard(stream)
            assert self._engine is not None
            self._engine.submit(Cancel(stream=stream), lambda reply: None)
