"""The media processes as one, and which of them has which call. What the web process holds of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from voxrtc.chat.media_client import STOPPED, CallRefused, MediaClient, gone
from voxrtc.chat.tokens import process_of
from voxrtc.messages.engine import Reference
from voxrtc.messages.media import FULL, Answer, Dig, MediaStats, Offer, Resume

TOLD_WITHIN = 2.0  # seconds that a process may take to say how it is

T = TypeVar("T")


class Load(NamedTuple):
    """Whether a process is there, and how many calls it has."""

    there: bool
    calls: int


def order(loads: Mapping[str, Load]) -> list[str]:
    """Who is asked to take a call, and who next, should that one be full: those that are there, fewest calls first. Pure."""
    return sorted(loads, key=lambda name: (not loads[name].there, loads[name].calls))


class Switchboard:
    """Media processes by name, with the face of a single one, `MediaClient`. A new call goes to the process that has fewest,
    and all that is about a call to the one that has it.

    `over` is told each call that has ended, also those that a dead process took along; `found` is called whenever a process is
    there.
    """

    def __init__(self, clients: Mapping[str, MediaClient]) -> None:
        """Of one at least."""
        assert clients
        self.over: Callable[[str], None] = lambda call: None
        self.found: Callable[[], None] = lambda: None
        self._clients = dict(clients)
        self._homes: dict[str, str] = {}  # the process of each call that is not over
        self._begun: dict[str, set[str]] = {name: set() for name in clients}  # of these, calls that resume no other's session
        for name, client in clients.items():
            client.over = partial(self._over, name)
            client.found = lambda: self.found()

    async def answer(self, offer: Offer) -> Answer:
        """`MediaClient.answer`. Raises `CallRefused`."""
        return await self._begin(offer.call, offer.resume, lambda client: client.answer(offer))

    async def open(self, call: str, session: dict[str, Any], listener: Callable[[str | None], None]) -> None:
        """`MediaClient.open`. Raises `CallRefused`."""
        await self._begin(call, None, lambda client: client.open(call, session, listener))

    async def dig(self, tunnel: Dig, listener: Callable[[str | bytes | None], None]) -> None:
        """`MediaClient.dig`. Raises `CallRefused`."""
        await self._begin(tunnel.call, tunnel.resume, lambda client: client.dig(tunnel, listener))

    def packet(self, call: str, data: bytes) -> None:
        """`MediaClient.packet`."""
        if client := self._client(call):
            client.packet(call, data)

    def lost(self, call: str) -> None:
        """`MediaClient.lost`."""
        if client := self._client(call):
            client.lost(call)

    async def say(self, call: str, text: str) -> None:
        """`MediaClient.say`. Raises `CallRefused` when the session is gone."""
        if not (client := self._client(call)):
            raise gone(STOPPED)
        await client.say(call, text)

    async def tell(self, call: str, text: str) -> None:
        """`MediaClient.tell`. Raises `CallRefused` when its process is gone."""
        if client := self._client(call):
            await client.tell(call, text)

    async def hang_up(self, call: str) -> bool:
        """`MediaClient.hang_up`. Raises `CallRefused` when its process is gone."""
        client = self._client(call)
        return await client.hang_up(call) if client else False

    # --- all of them ---

    async def drain(self, seconds: float) -> None:
        """`MediaClient.drain`. Raises `CallRefused` when no process is there."""
        await self._all(lambda client: client.drain(seconds))

    async def stats(self) -> dict[str, MediaStats]:
        """What each counts that answers, by its name. Raises `CallRefused` when none does."""
        return await self._all(lambda client: client.stats(TOLD_WITHIN))

    async def keep_voice(self, voice: str, reference: Reference) -> None:
        """`MediaClient.keep_voice`. Raises `CallRefused` when no process is there."""
        await self._all(lambda client: client.keep_voice(voice, reference))

    async def drop_voice(self, voice: str) -> None:
        """`MediaClient.drop_voice`. Raises `CallRefused` when no process is there."""
        await self._all(lambda client: client.drop_voice(voice))

    async def voices_used(self) -> list[str]:
        """`MediaClient.voices_used`. Raises `CallRefused` when no process is there."""
        used = await self._all(lambda client: client.voices_used())
        return sorted({voice for voices in used.values() for voice in voices})

    async def transcribe(self, pcm: bytes) -> str:
        """`MediaClient.transcribe`, by whichever has fewest calls. Raises `CallRefused`."""
        return await self._clients[self._order()[0]].transcribe(pcm)

    async def ready(self) -> None:
        """Wait until all take requests."""
        await asyncio.gather(*(client.ready() for client in self._clients.values()))

    async def close(self) -> None:
        """Let go of all."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def _all(self, question: Callable[[MediaClient], Awaitable[T]]) -> dict[str, T]:
        """The answers of those that are there. Raises `CallRefused` when none is, and whatever else a question does."""
        answers = await asyncio.gather(*map(question, self._clients.values()), return_exceptions=True)
        told: dict[str, T] = {}
        for name, answer in zip(self._clients, answers, strict=True):
            if isinstance(answer, CallRefused):
                refusal = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                told[name] = answer
        if not told:
            raise refusal
        return told

    # --- which has a call ---

    def _client(self, call: str) -> MediaClient | None:
        return self._clients[self._homes[call]] if call in self._homes else None

    def _order(self) -> list[str]:
        return order({name: Load(client.there, len(self._begun[name])) for name, client in self._clients.items()})

    async def _begin(self, call: str, resume: Resume | None, ask: Callable[[MediaClient], Awaitable[T]]) -> T:
        """Have a call taken: by the process whose session it resumes, else by the first with a place. Raises `CallRefused`."""
        if resume and resume.token:
            name = process_of(resume.token)  # if it names none, any says that there is no such session
            return await self._give(call, name if name in self._clients else self._order()[0], ask)
        for name in self._order():
            self._begun[name].add(call)
            try:
                return await self._give(call, name, ask)
            except CallRefused as refused:
                refusal = refused
                if refusal.code != FULL:
                    break
        raise refusal

    async def _give(self, call: str, name: str, ask: Callable[[MediaClient], Awaitable[T]]) -> T:
        """It counts from now on, so that it may be hung up while it is being answered, and others go elsewhere."""
        self._homes[call] = name
        try:
            return await ask(self._clients[name])
        except BaseException:
            self._forget(call)
            raise

    def _forget(self, call: str) -> None:
        if name := self._homes.pop(call, None):
            self._begun[name].discard(call)

    def _over(self, name: str, call: str | None) -> None:
        """A process told that a call is over; None: it is gone, and all of its calls."""
        for each in [call] if call else [each for each, home in self._homes.items() if home == name]:
            if self._homes.get(each) == name:
                self._forget(each)
                self.over(each)
