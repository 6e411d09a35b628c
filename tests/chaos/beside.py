"""Who listens while something is wrong with somebody else, or with the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx

from tests.census import samples
from tests.chaos.house import EVERY, House
from tests.chaos.listeners import Caller, Download, Line, Listener
from tests.chaos.streams import TEXTS
from tests.waiting import until

LONG = " ".join([TEXTS[-1]] * 4)  # about half a minute


async def lengths(http: httpx.AsyncClient) -> dict[str, float]:
    """Seconds of each text, when nothing happens."""
    alone = Download(http, 0)
    return {text: (await alone.hear(text)).seconds for text in TEXTS}


@asynccontextmanager
async def unaware(house: House, known: dict[str, float]) -> AsyncIterator[list[Listener]]:
    """Three who listen all the while, and of whom each hears every stream whole and without a gap."""
    listeners: list[Listener] = [Download(house.http, 1), Download(house.http, 2, "sse"), Caller(house.http, 3)]
    living = [asyncio.create_task(each.live()) for each in listeners]
    try:
        await until(lambda: _all_heard(listeners), 60, EVERY)
        yield listeners
        since = time.monotonic()
        await until(lambda: _all_heard(listeners, since), 60, EVERY)
    finally:
        for each in listeners:
            each.stop()
        await asyncio.gather(*living)
    streams = [stream for each in listeners for stream in each.streams]
    spoilt = [stream for stream in streams if not stream.viable(known)]
    print(f"  {len(streams)} streams beside it, {len(spoilt)} of them spoilt")
    assert not spoilt, spoilt


def _all_heard(listeners: list[Listener], since: float = 0.0) -> bool:
    """Each of them has heard a stream that it asked for since then."""
    return all(any(stream.asked >= since and stream.ended for stream in each.streams) for each in listeners)


class Ear(Line):
    """A call that notes its packets: when each came, its number and its RTP timestamp."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: list[tuple[float, int, int]] = []

    async def call(self, http: httpx.AsyncClient) -> str:
        (transceiver,) = self.connection.getTransceivers()
        take = transceiver.receiver._handle_rtp_packet

        async def note(packet: Any, *rest: Any, **named: Any) -> None:
            self.packets.append((time.monotonic(), packet.sequence_number, packet.timestamp))
            await take(packet, *rest, **named)

        transceiver.receiver._handle_rtp_packet = note  # type: ignore[method-assign]
        return await super().call(http)

    async def wait(self, type: str, within: float = 60.0) -> dict[str, Any]:
        """The next event of this type."""
        async with asyncio.timeout(within):
            while (event := await self.news.get())["type"] != type:
                pass
        return event

    def most_within(self, seconds: float) -> int:
        """The most packets that came in so short a time."""
        times = [at for at, _, _ in self.packets]
        return max(sum(first <= at < first + seconds for at in times[i : i + 60]) for i, first in enumerate(times))

    def check(self) -> None:
        """No packet is missing, and time goes on by whole frames of 20 ms."""
        for (_, number, stamp), (_, following, later) in pairwise(self.packets):
            assert (following - number) % (1 << 16) == 1, "a packet is missing"
            assert (later - stamp) % (1 << 32) % 960 == 0 and 0 < (later - stamp) % (1 << 32) < 1 << 31


async def scrape(http: httpx.AsyncClient) -> dict[str, float]:
    """`/metrics`, by name and labels."""
    return samples((await http.get("/metrics")).text)
