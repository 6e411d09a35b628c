"""ZeroMQ connections to other processes of the program, and an engine's transport. No torch here: web and media hold this."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from voxrtc.engine.client import EngineLost
from voxrtc.messages import Message, decode, encode
from voxrtc.messages.engine import EngineReply, EngineRequest
from voxrtc.messages.model import Watch

log = logging.getLogger(__name__)

CONNECTION = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED  # what to watch a `dealer` for


def dealer(key: bytes = b"") -> zmq.Socket[bytes]:
    """A socket to another process of the program, which may not be there and may come back.

    With the public `key` of that process what is sent is encrypted: for one on another machine (CurveZMQ).
    """
    socket: zmq.Socket[bytes] = zmq.Socket(zmq.asyncio.Context.instance(), zmq.DEALER)
    if key:
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = key
    socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a process that is not there
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 400)  # a model that is not loaded has nobody at its address
    return socket


class Connection:
    """A `dealer` to an address: messages out, replies of one kind in, and word of the other side's coming and going.

    Make and use it on one running event loop; it connects by itself again when the other process is restarted.
    """

    def __init__(
        self,
        address: str,
        kind: Any,
        on_reply: Callable[[Any], None],
        on_change: Callable[[bool], None],
        key: bytes = b"",
    ) -> None:
        """`kind` is what `messages.decode` is to make of replies; `on_change` is told whether somebody is there."""
        self.connected = False
        self._kind, self._on_reply, self._on_change = kind, on_reply, on_change
        self._socket, self._loop = dealer(key), asyncio.get_running_loop()
        self._monitor = self._socket.get_monitor_socket(CONNECTION)  # of the context's kind: its `recv` is awaited
        self._socket.connect(address)
        self._descriptor = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._read)
        self._watching = asyncio.ensure_future(self._watch())

    def send(self, message: Message) -> bool:
        """Whether it could be sent. Never blocks."""
        try:
            self._socket.send(encode(message), zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._loop.call_soon(self._read)  # sending has taken notice of what came, so the descriptor will not tell of it
        return True

    async def close(self) -> None:
        self._watching.cancel()
        # The loop is to forget both before they are gone: it would take the next one of the same number for watched.
        self._loop.remove_reader(self._descriptor)
        self._monitor.close()
        self._socket.disable_monitor()
        self._socket.close()

    def _read(self) -> None:
        """All that has come. (`zmq.asyncio` makes futures and tasks of a message: 0.1 ms.)"""
        with contextlib.suppress(zmq.Again):
            while not self._socket.closed:
                self._on_reply(decode(self._socket.recv(zmq.NOBLOCK), self._kind))

    async def _watch(self) -> None:
        while True:
            event = (await recv_monitor_message(self._monitor))["event"]  # type: ignore[misc]
            self.connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            self._on_change(self.connected)


class Listener:
    """The other end of `Connection`s: takes requests of one kind in, and gives each client its replies.

    Make and use it on one running event loop.
    """

    def __init__(self, address: str, kind: Any) -> None:
        """`kind` is what `messages.decode` is to make of requests."""
        self._kind = kind
        self._socket = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 0)  # a ROUTER drops what is beyond it
        self._socket.bind(address)
        self._sending: set[asyncio.Future[Any]] = set()

    def send(self, client: bytes, reply: Message) -> None:
        """To one who has asked; to nobody, if it has left, or this is over. Never blocks."""
        if self._socket.closed:
            return
        sending = asyncio.ensure_future(self._socket.send_multipart([client, encode(reply)]))
        self._sending.add(sending)  # done already: a ROUTER never waits
        self._sending.difference_update([each for each in self._sending if each.done()])

    async def serve(self, take: Callable[[bytes, Any], None]) -> None:
        """Have `take` told of every request, with the client that it is from, until cancelled."""
        try:
            while True:
                client, data = await self._socket.recv_multipart()
                try:
                    request = decode(data, self._kind)
                except msgspec.DecodeError as error:
                    log.error("a client sent no message of ours: %s", error)
                else:
                    take(client, request)
        finally:
            self._socket.close()


class ZmqTransport:
    """`engine.client.Transport` to an engine process. Connects by itself again when the process is restarted."""

    def __init__(self, address: str, key: bytes = b"") -> None:
        self._address, self._key = address, key
        self._connection: Connection | None = None

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None:
        self._connection = Connection(
            self._address, EngineReply, on_reply, lambda there: self.send(Watch()) if there else on_lost(), self._key
        )

    def send(self, request: EngineRequest) -> None:
        if self._connection is None or not self._connection.connected:
            raise EngineLost("The speech engine is starting. Please try again in a few seconds.")
        if not self._connection.send(request):
            raise EngineLost("The speech engine has just stopped. Please try again in a few seconds.")

    async def close(self) -> None:
        if self._connection:
            await self._connection.close()
