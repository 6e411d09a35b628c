"""The ZeroMQ transport to an engine process. No torch here: the web and the media process hold this."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from voxrtc.engine.client import EngineLost
from voxrtc.messages import EngineReply, EngineRequest, Watch, decode, encode

CONNECTION = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED  # what to watch a `dealer` for


def dealer() -> zmq.asyncio.Socket:
    """A socket to another process of the program, which may not be there and may come back."""
    socket = zmq.asyncio.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a process that is not there
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 400)  # a model that is not loaded has nobody at its address
    return socket


class ZmqTransport:
    """`engine.client.Transport` to an engine process. Connects by itself again when the process is restarted."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = dealer()
        self._connected = False
        self._tasks: list[asyncio.Task[None]] = []

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None:
        monitor = self._socket.get_monitor_socket(CONNECTION)
        self._socket.connect(self._address)
        self._tasks = [asyncio.ensure_future(self._receive(on_reply)), asyncio.ensure_future(self._watch(monitor, on_lost))]

    def send(self, request: EngineRequest) -> None:
        if not self._connected:
            raise EngineLost("The speech engine is starting. Please try again in a few seconds.")
        sent = asyncio.ensure_future(self._socket.send(encode(request), zmq.NOBLOCK))  # done already: it goes now or never
        if sent.done() and sent.exception():
            raise EngineLost("The speech engine has just stopped. Please try again in a few seconds.")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._socket.disable_monitor()
        self._socket.close()

    async def _receive(self, on_reply: Callable[[EngineReply], None]) -> None:
        while True:
            on_reply(decode(await self._socket.recv(), EngineReply))

    async def _watch(self, monitor: zmq.asyncio.Socket, on_lost: Callable[[], None]) -> None:
        while True:
            event = (await recv_monitor_message(monitor))["event"]
            self._connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if self._connected:
                self.send(Watch())
            else:
                on_lost()
