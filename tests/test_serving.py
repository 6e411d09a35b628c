"""How a server takes signals: the first SIGTERM drains, and whatever comes after it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from sse_starlette.sse import AppStatus
from starlette.responses import StreamingResponse

from tests.waiting import PATIENCE, until
from voxrtc.api.drain import Drain
from voxrtc.api.feed import Feed
from voxrtc.serving import Server, configured

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def whole_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal to one server ends, by a flag that nothing resets, every later answer of this library's in the process: other
    tests' MCP hosts were never answered."""
    monkeypatch.setattr(AppStatus, "should_exit", False)


class Drained(Server):
    """Says when it may end: `may`. `given` are the seconds that were told."""

    def __init__(self) -> None:
        self.drain, self.may, self.given = Drain(), asyncio.Event(), 0.0
        self.app = FastAPI()
        super().__init__(configured(self.app, ""), Feed({}), self.drain, self._wait)

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


async def test_who_only_looks_on_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    server, begun = Drained(), asyncio.Event()

    async def beat() -> AsyncIterator[str]:
        begun.set()
        yield "a page is open\n"
        await asyncio.Event().wait()

    @server.app.get("/beat")
    async def beats() -> StreamingResponse:
        return StreamingResponse(beat())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        async with httpx.AsyncClient(base_url="http://{}:{}".format(*listener.getsockname())) as client:
            looking = asyncio.create_task(client.get("/beat"))
            await asyncio.wait_for(begun.wait(), PATIENCE)
            server.should_exit = True
            await asyncio.wait_for(serving, PATIENCE)
            with pytest.raises(httpx.RemoteProtocolError):
                await looking
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_it_ends_even_if_the_drain_fails() -> None:
    server = Drained()
    server._let_end = lambda seconds: 1 / 0  # type: ignore[assignment, return-value]
    server.handle_exit(signal.SIGTERM, None)
    await until(lambda: server.should_exit)
