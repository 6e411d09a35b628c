"""How a server takes signals: the first SIGTERM drains, and whatever comes after it ends."""

from __future__ import annotations

import asyncio
import signal

import pytest
from fastapi import FastAPI

from tests.waiting import until
from voxrtc.api.drain import Drain
from voxrtc.api.feed import Feed
from voxrtc.serving import Server, configured

pytestmark = pytest.mark.anyio


class Drained(Server):
    """Says when it may end: `may`. `given` are the seconds that were told."""

    def __init__(self) -> None:
        self.drain, self.may, self.given = Drain(), asyncio.Event(), 0.0
        super().__init__(configured(FastAPI(), ""), Feed({}), self.drain, self._wait)

    async def _wait(self, seconds: float) -> None:
        self.given = seconds
        await self.may.wait()


async def test_it_ends_once_nothing_is_under_way() -> None:
    server = Drained()
    server.handle_exit(signal.SIGTERM, None)
    assert server.drain.begun, "at once"
    await until(lambda: server.given)
    assert not server.should_exit and 0 < server.given < 30
    server.may.set()
    await until(lambda: server.should_exit)
    assert not server.force_exit


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_waits_for_nobody(again: signal.Signals) -> None:
    server = Drained()
    server.handle_exit(signal.SIGTERM, None)
    await until(lambda: server.given)
    server.handle_exit(again, None)
    assert server.should_exit and server.force_exit


async def test_an_interrupt_ends_it_at_once() -> None:
    server = Drained()
    server.handle_exit(signal.SIGINT, None)
    assert server.should_exit and not server.drain.begun


async def test_it_ends_even_if_the_drain_fails() -> None:
    server = Drained()
    server._let_end = lambda seconds: 1 / 0  # type: ignore[assignment, return-value]
    server.handle_exit(signal.SIGTERM, None)
    await until(lambda: server.should_exit)
