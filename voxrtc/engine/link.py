"""A replica as a router sees it, and the streams that it gave it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from voxrtc.engine.client import Transport
from voxrtc.engine.clocks import Offset
from voxrtc.engine.server import Reply
from voxrtc.messages.engine import Generate, Stats
from voxrtc.messages.model import Progress

AGAIN, AGAIN_AT_MOST = 10.0, 300.0  # seconds after which a replica that could not be loaded is started anew


class Host(Protocol):
    """Where replicas run: as processes here, or wherever Ray has a place for them."""

    async def find(self, name: str, tell: Callable[[str], None]) -> Transport:
        """Start a replica unless it runs, wait until it does, and say how it is reached. Again after it was lost.

        `tell` is told what is being waited for. What it raises is logged, and it is asked once more.
        """

    async def stop(self, name: str) -> None:
        """End a replica, however it is. A later `find` starts it anew."""

    async def close(self) -> None:
        """End all."""


@dataclass
class Placed:
    """A stream, and who hears of it."""

    request: Generate
    reply: Reply
    moved: bool = False  # it began elsewhere
    sounded: bool = False  # its listener has something of it
    grown: bool = False  # more text came, so that its request is not all there is


@dataclass
class Link:
    """A replica, from its start to its end, whether there is a way to it or not."""

    name: str
    transport: Transport | None = None  # None while there is no way to it
    progress: Progress | None = None
    stats: Stats | None = None
    memory: float = 0.0  # GB that it holds
    draining: bool = False
    ill: bool = False  # it is to be ended, and started anew
    offset: Offset = field(default_factory=Offset)
    failures: int = 0  # to load, one after another
    again: float = 0.0  # when that is to be tried anew
    asked: dict[int, float] = field(default_factory=dict)  # how it is: when, by call
    streams: dict[str, Placed] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # streams that ended since it last said which it has
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    there: asyncio.Event = field(default_factory=asyncio.Event)

    def failed(self, now: float) -> None:
        """It could not be loaded, and stays to tell why: for a while, twice as long each time."""
        self.again = now + min(AGAIN * 2**self.failures, AGAIN_AT_MOST)
        self.failures += 1

    def silent(self, now: float) -> float:
        """For how many seconds it has left a question open."""
        return now - min(self.asked.values(), default=now)

    @property
    def ready(self) -> bool:
        """It takes streams, unless it is `draining`."""
        return self.transport is not None and self.progress is not None and self.progress.state == "ready"

    @property
    def unfit(self) -> bool:
        """It could not be loaded."""
        return self.progress is not None and self.progress.state == "failed"
