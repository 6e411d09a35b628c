"""Who comes to `POST /v1/audio/speech`, when they come, and what became of it.

As cheap as can be, since they share the machine with what they measure: a connection each, and nothing between it and them.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from voxrtc.bench.workload import Request
from voxrtc.crowd.player import Player, replay

RATE = 24_000  # Hz, of `pcm`
OVER = "the whole answer"


@dataclass
class Visit:
    """One who comes, and plays what comes back at the speed of speech. Times by `time.monotonic`, in seconds."""

    planned: float
    came: float = math.inf
    status: int = 0
    answered: float = math.inf  # when the head and, of a refusal, the body of the answer was there
    retry_after: str = ""
    code: str = ""  # of a refusal
    player: Player = field(default_factory=Player)
    arrivals: list[tuple[float, float]] = field(default_factory=list)  # of sound, with its seconds
    end: str = ""  # `OVER`, or what happened instead

    @property
    def admitted(self) -> bool:
        return self.status == 200

    @property
    def refused(self) -> bool:
        """As one is to be: told at once, why and for how long."""
        return (self.status, self.code) == (503, "busy") and self.retry_after.isdigit() and int(self.retry_after) > 0

    @property
    def viable(self) -> bool:
        """It heard all of it, and never ran dry."""
        return self.end == OVER and self.player.chunks > 0 and not self.player.stalled

    def viable_behind(self, delay: float) -> bool:
        """The same with a player that begins so many seconds late, as browsers' do."""
        return self.end == OVER and bool(self.arrivals) and not replay(self.arrivals, delay).stalled

    @property
    def ttfa(self) -> float:
        """Seconds until its first sound, the wait at the door among them."""
        return self.arrivals[0][0] - self.came if self.arrivals else math.inf


async def come(port: int, requests: Sequence[Request]) -> list[Visit]:
    """All of them, each at its time; returns when the last has left."""
    began = time.monotonic()
    visits = [Visit(began + request.at) for request in requests]
    await asyncio.gather(*(_visit(port, request.text, visit) for request, visit in zip(requests, visits, strict=True)))
    return visits


async def _visit(port: int, text: str, visit: Visit) -> None:
    await asyncio.sleep(visit.planned - time.monotonic())
    visit.came = time.monotonic()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(_request(text))
            await _read(reader, visit)
        finally:
            writer.close()
    except (OSError, EOFError, ValueError) as broken:
        visit.end = f"{type(broken).__name__}: {broken}"


def _request(text: str) -> bytes:
    body = json.dumps({"input": text, "response_format": "pcm"}).encode()
    head = "POST /v1/audio/speech HTTP/1.1\r\nHost: voxrtc\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _read(reader: asyncio.StreamReader, visit: Visit) -> None:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if line)
    visit.status, visit.retry_after = int(status.split()[1]), headers.get("retry-after", "")
    if not visit.admitted:
        visit.code = json.loads(await reader.readexactly(int(headers["content-length"])))["error"]["code"]
        visit.answered = time.monotonic()
        return
    visit.answered = time.monotonic()
    async for chunk in _chunks(reader):
        visit.arrivals.append((time.monotonic(), len(chunk) / 2 / RATE))
        visit.player.push(*visit.arrivals[-1])
    visit.end = OVER


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """RFC 9112, section 7.1. Raises `EOFError` or `ValueError` where the answer breaks off."""
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
