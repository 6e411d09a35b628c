"""A bench's ear: the kernel dates what it counts, and what is no sound goes aiortc's way."""

from __future__ import annotations

import asyncio
import socket
import time

from tests.waiting import until
from voxrtc.bench.listener import Ear

SOUND, REPORT, STUN = b"\x80\x60" + bytes(20), b"\x80\xc8" + bytes(20), b"\x00\x01" + bytes(18)


class Protocol(asyncio.DatagramProtocol):
    """Keeps what comes, as aioice's does."""

    def __init__(self) -> None:
        self.came: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.came.append(data)


async def test_sound_is_dated_by_when_it_came_however_late_one_looks() -> None:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(Protocol, local_addr=("127.0.0.1", 0))
    ear = Ear(protocol)  # type: ignore[arg-type]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.connect(transport.get_extra_info("sockname"))
        for data in (SOUND, REPORT, SOUND, STUN):
            server.send(data)
        ear.look()
        assert (protocol.came, len(ear.arrivals)) == ([REPORT, STUN], 2)

        def dated() -> bool:
            server.send(SOUND)
            sent = time.time_ns()
            time.sleep(0.002)
            ear.look()
            return ear.arrivals[-1] <= sent

        await until(dated)  # the kernel takes a moment to begin with it
        ear.close()
        server.send(SOUND)
        await until(lambda: protocol.came[-1] == SOUND)
    transport.close()
