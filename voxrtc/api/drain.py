"""A server on its way out: nobody new is let in, and what is under way may end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from voxrtc.api.errors import ApiError
from voxrtc.api.host import Host

CODE = "shutting_down"
MESSAGE = "This server is being shut down. Please try again in a few seconds: it may be back, or another one answers."


class Drain:
    """Whether it has begun, and how many utterances over HTTP are under way. Use it on one event loop."""

    def __init__(self) -> None:
        self.begun = False
        self._under_way = 0
        self._left = asyncio.Event()  # somebody did

    def begin(self) -> None:
        self.begun = True

    def check(self) -> None:
        """Raises `ApiError` 503 once it has begun."""
        if self.begun:
            raise ApiError(503, CODE, MESSAGE)

    def enter(self) -> Callable[[], None]:
        """One more is under way, until what comes back is called. Raises as `check` does."""
        self.check()
        self._under_way += 1
        return self._leave

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            self._left.clear()
            await self._left.wait()

    def _leave(self) -> None:
        self._under_way -= 1
        self._left.set()


@dataclass(frozen=True)
class Draining:
    """A `Host` that takes nobody once its drain has begun."""

    host: Host
    drain: Drain

    def begin(self, call: str, address: str, ticket: str = "") -> None:
        self.drain.check()
        self.host.begin(call, address, ticket)

    def resume(self, address: str) -> None:
        self.host.resume(address)

    def over(self, call: str) -> None:
        self.host.over(call)

    def listen(self, address: str) -> Callable[[], None]:
        with ExitStack() as leaving:
            leaving.callback(self.drain.enter())
            leaving.callback(self.host.listen(address))
            return leaving.pop_all().close
