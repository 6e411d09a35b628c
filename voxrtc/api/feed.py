"""What goes on, looked at once for all who look. No HTTP here: `live.py` brings it to browsers."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

PERIOD = 0.25  # seconds a tick
MOST = 128  # viewers at a time

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """What an event tells: `ask` gives what `msgspec` can write as JSON. It is told when it differs from the last time."""

    ask: Callable[[], Awaitable[Any]]
    every: int = 1  # ticks


class Full(Exception):
    """`MOST` look already."""


class Viewer:
    """One who looks. Of each event only the newest waits for them: who is slow skips, and nothing piles up."""

    def __init__(self, latest: Mapping[str, bytes]) -> None:
        self._over = False
        self._waiting = dict(latest)
        self._news = asyncio.Event()
        if latest:
            self._news.set()

    def tell(self, event: str, message: bytes) -> None:
        self._waiting[event] = message
        self._news.set()

    def end(self) -> None:
        """Nothing follows."""
        self._over = True
        self._news.set()

    async def next(self) -> bytes:
        """All that is new; waits until something is. Nothing, at the end."""
        await self._news.wait()
        if self._over:
            return b""
        self._news.clear()
        news = b"".join(self._waiting.values())
        self._waiting.clear()
        return news


class Feed:
    """Asks its sources while there is a viewer, and nothing at all while there is none. Used from one event loop."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        most: int = MOST,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sources, self._most, self._sleep = sources, most, sleep
        self._viewers: set[Viewer] = set()
        self._latest: dict[str, bytes] = {}  # messages by event, as long as somebody looks
        self._ticking: asyncio.Task[None] | None = None
        self._troubled: set[str] = set()  # sources whose failure the log has

    @contextmanager
    def viewer(self) -> Iterator[Viewer]:
        """Look, for as long as the block lasts. Raises `Full`."""
        if len(self._viewers) >= self._most:
            raise Full
        viewer = Viewer(self._latest)
        self._viewers.add(viewer)
        self._ticking = self._ticking or asyncio.get_running_loop().create_task(self._tick())
        try:
            yield viewer
        finally:
            self._viewers.remove(viewer)
            if not self._viewers:
                self._ticking.cancel()
                self._ticking, self._latest = None, {}

    def close(self) -> None:
        """All have seen enough: the server is about to stop, and would wait for them."""
        for viewer in self._viewers:
            viewer.end()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number in itertools.count():
            for event, source in self._sources.items():
                if number % source.every == 0:
                    await self._ask(event, source)
            due = max(due + PERIOD, loop.time())  # a source that was slow is not made up for
            await self._sleep(due - loop.time())

    async def _ask(self, event: str, source: Source) -> None:
        try:
            data = msgspec.json.encode(await source.ask())
        except Exception:
            if event not in self._troubled:
                log.exception("“%s” cannot be told", event)
            self._troubled.add(event)
            return
        self._troubled.discard(event)
        message = b"event: %s\ndata: %s\n\n" % (event.encode(), data)
        if message != self._latest.get(event):
            self._latest[event] = message
            for viewer in self._viewers:
                viewer.tell(event, message)
