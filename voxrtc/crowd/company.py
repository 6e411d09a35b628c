"""What a crowd holds of its WebRTC peers, which live in a process of their own while there are any."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from voxrtc.engine.transport import Connection
from voxrtc.messages.crowd import Peers, PeerState, Want

log = logging.getLogger(__name__)


class Process(Protocol):
    """Who runs the peers' process."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Company:
    """Peers at an address, at most `most`. Make it on the event loop that it is used from. `heard` takes what they tell."""

    def __init__(self, address: str, process: Process, most: int) -> None:
        self.most = most
        self.heard: Callable[[Peers], None] = lambda news: None
        self.peers: list[PeerState] = []
        self._wanted = Want(peers=0, model="")
        self._process = process
        self._changing: asyncio.Task[None] | None = None
        self._connection = Connection(address, Peers, self._take, self._changed)

    @property
    def wanted(self) -> int:
        return self._wanted.peers

    def want(self, peers: int, model: str) -> None:
        """Have so many. The process is started for the first, and ended after the last."""
        assert 0 <= peers <= self.most
        before, self._wanted = self._wanted, Want(peers=peers, model=model)
        if bool(before.peers) != bool(peers):
            self._changing = asyncio.get_running_loop().create_task(self._change(self._changing, bool(peers)))
        self._connection.send(self._wanted)  # to one who is not there yet: see `_changed`

    async def close(self) -> None:
        if self._changing:
            await asyncio.gather(self._changing, return_exceptions=True)
        await self._connection.close()
        self.peers = []  # whether or not it was told of the process's end

    async def _change(self, before: asyncio.Task[None] | None, there: bool) -> None:
        """In the order of the wishes, whatever came of those before."""
        if before:
            await before
        try:
            if there:
                self._process.start()
            else:
                await self._process.stop()
        except Exception:
            log.exception("the process of WebRTC peers could not be %s", "started" if there else "ended")

    def _take(self, news: Peers) -> None:
        self.peers = news.peers if self.wanted else []
        self.heard(news)

    def _changed(self, connected: bool) -> None:
        if connected:
            self._connection.send(self._wanted)
        else:
            self.peers = []
