"""Clients that read slowly, or nothing at all: each is bounded and in the end let go, and nobody else hears of it."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path

import httpx
from websockets.asyncio.client import connect

from tests.chaos.beside import LONG, lengths, scrape, unaware
from tests.chaos.house import House
from tests.program import Running, running
from tests.rtc.browser import own_words
from voxrtc.listening import UNREAD_FOR

EACH = 2
SLOW = 1024  # bytes a second
MB = 60  # that the web and the media process may take for all of them


class Raw:
    """A request of which hardly anything is read, with a socket that takes little."""

    def __init__(self, url: httpx.URL, head: str, body: bytes = b"") -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect((url.host, url.port))
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self.socket.sendall(f"{head} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n{length}\r\n".encode() + body)
        self.socket.setblocking(False)
        self.read = 0

    async def over(self) -> str:
        """Read all that is left; how it ends."""
        loop = asyncio.get_running_loop()
        try:
            while data := await asyncio.wait_for(loop.sock_recv(self.socket, 65_536), 10):
                self.read += len(data)
        except ConnectionError:
            return "reset"
        except TimeoutError:
            return "open"
        finally:
            self.socket.close()
        return "ended"

    async def sip(self, seconds: float) -> bool:
        """`SLOW`, for so long; whether there was something all the while."""
        loop, until = asyncio.get_running_loop(), time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                data = await asyncio.wait_for(loop.sock_recv(self.socket, SLOW), 5)
            except (ConnectionError, TimeoutError):
                return False
            if not data:
                return False
            self.read += len(data)
            await asyncio.sleep(1)
        return True


def test_who_does_not_read_is_bounded_and_let_go(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with running(log) as program:
        asyncio.run(_everybody(program))
    assert "Traceback" not in log.read_text()


def speech(kind: str) -> bytes:
    text = " ".join([LONG] * 20)  # ten minutes: more than any socket takes
    return json.dumps({"input": text, "response_format": "wav", "stream_format": kind}).encode()


async def _everybody(program: Running) -> None:
    url = program.base_url
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        house, real = House(program.pid, http), await lengths(http)
        async with unaware(house, real):
            await asyncio.sleep(1)
        before, files = await _rest(house)
        began = time.monotonic()
        still = [Raw(url, "POST /v1/audio/speech", speech(kind)) for kind in ("audio", "sse") for _ in range(EACH)]
        slow = [Raw(url, "POST /v1/audio/speech", speech("audio")) for _ in range(EACH)]
        looking = [Raw(url, "GET /v1/voxrtc/live") for _ in range(EACH)]
        where = f"ws://{url.host}:{url.port}"
        sockets = [await _unread(f"{where}/v1/realtime?model=lark") for _ in range(EACH)]
        async with unaware(house, real):
            sipping = [asyncio.create_task(each.sip(UNREAD_FOR + 30)) for each in slow]
            most = 0
            while time.monotonic() - began < UNREAD_FOR + 30:
                await asyncio.sleep(5)
                most = max(most, sum(look.rss for role in ("web", "media") for look in house.looks()[role]))
        print(f"  {(most - before) / 1000:+.0f} MB at most, for {len(still) + len(slow) + len(looking) + len(sockets)} clients")
        assert most - before < 1000 * MB
        sipped = [await each for each in sipping]
        print(f"  at 1 kB/s: {sipped}, {[each.read for each in slow]} bytes")
        stats = (await http.get("/v1/voxrtc/stats")).json()
        left = len(stats["engines"]["lark"]["streams"])
        assert left <= EACH, f"{left} streams: who reads nothing keeps no place for longer than {UNREAD_FOR} s"
        ends = [await each.over() for each in (*still, *looking)]
        print(f"  who read nothing: {ends}")
        assert set(ends) <= {"reset", "ended"}
        for each in slow:
            each.socket.close()
        for each in sockets:
            each.transport.abort()
        _, after = await _rest(house)
        assert after <= files + 4, (files, after)
        assert (await scrape(http))['voxrtc_underruns_total{model="lark"}'] == 0


async def _rest(house: House) -> tuple[int, int]:
    """kB of web and media, and files of web, when nobody is there."""
    await house.idle()
    await asyncio.sleep(6)  # kept connections end after five
    looks = house.looks()
    return sum(look.rss for role in ("web", "media") for look in looks[role]), looks["web"][0].files


async def _unread(url: str):  # type: ignore[no-untyped-def]
    """A Realtime client that asks for much and reads nothing of it."""
    socket = await connect(url, max_queue=1, compression=None, ping_interval=None)
    for _ in range(8):
        await socket.send(json.dumps(own_words(LONG)))
    socket.transport.pause_reading()
    return socket
