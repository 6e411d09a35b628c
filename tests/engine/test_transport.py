"""Connections between processes: one after another in the same loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.waiting import PATIENCE
from voxrtc.engine.transport import Connection, Listener
from voxrtc.messages.engine import EngineReply, EngineRequest
from voxrtc.messages.model import GetUse, Use

pytestmark = pytest.mark.anyio
TIMES = 4


async def asked(address: str) -> float:
    """The answer to a question on a connection of its own."""
    told: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    there = asyncio.Event()
    connection = Connection(
        address, EngineReply, lambda reply: told.set_result(reply.memory), lambda connected: connected and there.set()
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await there.wait()
            assert connection.connected and connection.send(GetUse(call=1))
            return await told
    finally:
        await connection.close()


async def test_a_connection_is_heard_after_another_was_closed(tmp_path: Path) -> None:
    """The next one has the descriptors of the one before."""
    address = f"ipc://{tmp_path}/socket"
    listener = Listener(address, EngineRequest)
    answers = iter(range(TIMES))
    serving = asyncio.create_task(
        listener.serve(lambda client, _: listener.send(client, Use(call=1, live=0, last=0, memory=next(answers))))
    )
    assert [await asked(address) for _ in range(TIMES)] == list(range(TIMES))
    serving.cancel()
