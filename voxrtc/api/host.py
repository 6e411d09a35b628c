"""Whom this server takes calls from. Normally from anybody, up to `max_peers`, which media processes mind. On a public host
each address has its share, a call has its time, and who finds all places taken may stand in line."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from voxrtc.api.errors import ApiError
from voxrtc.api.guests import Guests
from voxrtc.api.waiting import WaitingRoom
from voxrtc.chat import events
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.switchboard import Switchboard

WARNING = 60.0  # seconds before a call's time is up, or half of a shorter one
FAREWELL = 0.5  # seconds that a client has to read so, before the line is gone


class Host(Protocol):
    """What `api` asks."""

    def begin(self, call: str, address: str, ticket: str = "") -> None:
        """A call from this address. Raises `ApiError` 429 or 503."""

    def resume(self, address: str) -> None:
        """Another line for a call that has its place. Raises `ApiError` 429."""

    def over(self, call: str) -> None:
        """A call has ended, or did not come about. May be told again."""

    def listen(self, address: str) -> Callable[[], None]:
        """An utterance over HTTP; what comes back ends it. Raises `ApiError` 429."""


class Anyone:
    """A host that minds nothing."""

    def begin(self, call: str, address: str, ticket: str = "") -> None: ...

    def resume(self, address: str) -> None: ...

    def over(self, call: str) -> None: ...

    def listen(self, address: str) -> Callable[[], None]:
        return lambda: None


@dataclass(frozen=True)
class Rules:
    """Calls at a time and starts a minute of one address, places for calls of all, and seconds that one may last."""

    calls: int
    starts: int
    places: int
    seconds: float


@dataclass
class _Call:
    address: str
    clock: asyncio.Task[None]


class PublicHost:
    """Use it on one event loop."""

    def __init__(self, rules: Rules, media: Switchboard, clock: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._media = rules, media
        self._guests = Guests(rules.calls, rules.starts, clock)
        self.room = WaitingRoom(rules.places, clock)
        self._calls: dict[str, _Call] = {}

    def begin(self, call: str, address: str, ticket: str = "") -> None:
        self._guests.enter(address)
        try:
            self.room.take(call, ticket)
        except ApiError:
            self._guests.leave(address)
            raise
        self._calls[call] = _Call(address, asyncio.create_task(self._time(call)))

    def resume(self, address: str) -> None:
        self._guests.resume(address)

    def over(self, call: str) -> None:
        if ended := self._calls.pop(call, None):
            ended.clock.cancel()
            self._guests.leave(ended.address)
            self.room.free(call)

    def listen(self, address: str) -> Callable[[], None]:
        self._guests.enter(address)
        return lambda: self._guests.leave(address)

    async def _time(self, call: str) -> None:
        """A call's time: it is warned, told when it is up, and hung up, whatever the media process answers."""
        seconds = self._rules.seconds
        warning = min(WARNING, seconds / 2)
        await asyncio.sleep(seconds - warning)
        message = f"Calls last {_span(seconds)} here: this one ends in {_span(warning)}."
        await self._tell(call, events.event("voxrtc.ending", seconds=warning, message=message))
        await asyncio.sleep(warning)
        message = f"That was {_span(seconds)}, which is how long calls last here. You are welcome to call again."
        await self._tell(call, events.error("session_expired", message))  # OpenAI's name for it
        await asyncio.sleep(FAREWELL)
        with contextlib.suppress(CallRefused):  # one that stands still finds it among its messages
            await self._media.hang_up(call)
        self.over(call)

    async def _tell(self, call: str, event: str) -> None:
        with contextlib.suppress(CallRefused):
            await self._media.tell(call, event)


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
