"""A peer that only writes down when its packets come. It is an aiortc peer until it is connected; from then on its packets
of sound cost it 5 us each (80 as aiortc takes them), so that the server is what is full first. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import time
from array import array
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from aioice.ice import StunProtocol
from aiortc import RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import is_rtcp

from voxrtc.chat.media_client import MediaClient
from voxrtc.messages.media import Offer
from voxrtc.rtc import ice

LOOK = 0.05  # seconds between two looks at what has come: reports and consent checks are answered so late
STAMPED = 35  # SO_TIMESTAMPNS (socket(7)): the kernel says when a packet came
STAMP = struct.Struct("@qq")  # seconds, nanoseconds
DATAGRAM = 2048  # bytes, more than any that comes

Signal = Callable[[str], Awaitable[str]]  # an SDP offer to a server, for its answer


def signal(client: MediaClient, call: str) -> Signal:
    """To a media process of ours, or who has its face."""

    async def answer(offer: str) -> str:
        return (await client.answer(Offer(call=call, sdp=offer))).sdp

    return answer


class Ear:
    """Takes a connection's socket from asyncio and looks at it now and then. To look late changes no arrival: the kernel has
    noted it. What is not sound goes aiortc's way.
    """

    def __init__(self, protocol: StunProtocol) -> None:
        self.arrivals = array("q")  # nanoseconds
        self._others = protocol.datagram_received
        transport: Any = protocol.transport  # whose type does not tell that it can pause
        transport.pause_reading()
        self._asyncios = transport
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setsockopt(socket.SOL_SOCKET, STAMPED, 1)
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(LOOK, self._look)

    def look(self) -> None:
        """Take all that has come."""
        while True:
            try:
                data, ancillary, _, address = self._socket.recvmsg(DATAGRAM, socket.CMSG_SPACE(STAMP.size), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if 0x80 <= data[0] < 0xC0 and not is_rtcp(data):
                seconds, nanoseconds = STAMP.unpack(ancillary[0][2])
                self.arrivals.append(1_000_000_000 * seconds + nanoseconds)
            else:
                self._others(data, address)

    def close(self) -> None:
        """Give the socket back."""
        self._timer.cancel()
        self._socket.close()
        self._asyncios.resume_reading()

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK, self._look)
        self.look()


class Listener:
    """`connect`, `ask` for sound, `begin` to count, and see the `gaps`."""

    def __init__(self, answer: Signal, direction: str = "recvonly") -> None:
        self._answer = answer
        self._peer = RTCPeerConnection(ice.configuration(""))
        self._channel = self._peer.createDataChannel("oai-events")
        transceiver = self._peer.addTransceiver("audio", direction=direction)
        transceiver.receiver._handle_rtp_packet = self._packet  # type: ignore[method-assign]
        self.sender = transceiver.sender
        self._first: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._ear: Ear | None = None

    async def connect(self) -> float:
        """Seconds from making the offer to the first packet."""
        opened = asyncio.Event()
        self._channel.on("open", opened.set)
        started = time.monotonic()
        await self._peer.setLocalDescription(await self._peer.createOffer())
        answer = await self._answer(self._peer.localDescription.sdp)
        await self._peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        first = await self._first
        await opened.wait()
        assert self._peer.sctp
        nominated = self._peer.sctp.transport.transport._connection._nominated[1]
        self._ear = Ear(nominated.protocol)
        return first - started

    def ask(self) -> None:
        """Have something said; stock, which always speaks, reads no events."""
        content = [{"type": "input_text", "text": "a tone"}]
        item = {"type": "message", "role": "user", "content": content}
        self._channel.send(json.dumps({"type": "conversation.item.create", "item": item}))
        self._channel.send(json.dumps({"type": "response.create"}))

    def begin(self) -> None:
        """What came until now does not count."""
        assert self._ear
        self._ear.look()
        del self._ear.arrivals[:]

    def gaps(self) -> npt.NDArray[np.float64]:
        """Seconds between packets, since it began."""
        assert self._ear
        self._ear.look()
        arrivals = np.array(self._ear.arrivals, np.int64)
        return (arrivals[1:] - arrivals[:-1]) / 1e9

    async def close(self) -> None:
        if self._ear:
            self._ear.close()
        await self._peer.close()

    async def _packet(self, packet: Any, arrival_time_ms: int) -> None:
        if not self._first.done():
            self._first.set_result(time.monotonic())
