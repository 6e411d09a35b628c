"""The engine as a process: speech over the socket, and what happens when one end dies."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.program import process_of
from tests.waiting import PATIENCE, answered
from voxrtc.engine.client import EngineClient, EngineLost, StreamFailed
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages.engine import Chunk, Generate, Queued, Stats
from voxrtc.settings import Settings
from voxrtc.supervisor import Child, Supervisor

TEXT = "The quick brown fox jumps over the lazy dog, and then it takes a long rest in the warm afternoon sun."
numbers = itertools.count()


def request(text: str = TEXT) -> Generate:
    return Generate(stream=f"test-{next(numbers)}", text=text, accepted=time.monotonic())


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Child, str]]:
    address = f"ipc://{folder}/engine"
    child = Child("engine", ["-m", "voxrtc.engine.process", "--listen", address], Settings().environment())
    async with Supervisor([child]):
        yield child, address


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[EngineClient]:
    client = EngineClient(ZmqTransport(address))
    await answered(client.models, EngineLost)
    yield client
    await client.close()


async def quiet(client: EngineClient) -> Stats:
    """The engine's counters once no stream is left."""

    async def look() -> Stats | None:
        stats = await client.stats()
        return None if stats.streams else stats

    return await answered(look)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an engine with room for one who speaks and one who waits. It ends with its parent."""
    address, room = f"ipc://{tmp_path_factory.mktemp('small')}/engine", Settings(max_streams=1, max_waiting=1)
    with process_of("voxrtc.engine.process", "--listen", address, **room.environment()) as process:
        yield address
        assert process.stdin
        process.stdin.close()  # its lifeline
        assert process.wait(PATIENCE) == 0


@pytest.mark.anyio
async def test_speech_comes_whole_and_a_killed_engine_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path) as (child, address), connected(address) as client:
        whole = [chunk async for chunk in client.generate(request())]
        assert [chunk.index for chunk in whole] == list(range(len(whole))) and whole[0].timing
        stats = await quiet(client)
        assert sum(len(chunk.pcm) for chunk in whole) == 2 * 600 * stats.frames

        with pytest.raises(StreamFailed) as failure:
            async for _ in client.generate(request()):
                assert child.process
                os.kill(child.process.pid, signal.SIGKILL)
        assert failure.value.code == "engine_lost"
        await answered(client.models, EngineLost)
        assert child.restarts == 1
        assert [chunk async for chunk in client.generate(request("Here I am again."))]


@pytest.mark.anyio
async def test_streams_of_a_client_that_left_or_vanished_end(small: str) -> None:
    async with connected(small) as watcher:
        before = await watcher.stats()
        async with connected(small) as leaving:
            async for _ in leaving.generate(request()):
                break  # leaving the iteration cancels
            stats = await quiet(watcher)
            assert stats.cancelled == before.cancelled + 1
            assert stats.frames_after_cancel <= before.frames_after_cancel + 1
        transport = ZmqTransport(small)
        vanishing = EngineClient(transport)
        await answered(vanishing.models, EngineLost)
        stream = vanishing.generate(request(TEXT * 20))
        await anext(stream)
        await transport.close()  # no cancel was sent
        stats = await quiet(watcher)
        assert stats.cancelled == before.cancelled + 2 and stats.kv_pages_used == 0


@pytest.mark.anyio
async def test_the_queue_is_told_and_left_across_the_socket(small: str) -> None:
    async with connected(small) as client:
        before = await client.stats()
        speaking = client.generate(request(TEXT * 20))
        await anext(speaking)
        transport = ZmqTransport(small)
        vanishing = EngineClient(transport)
        await answered(vanishing.models, EngineLost)
        waiting = vanishing.generate(request())
        place = await anext(waiting)
        assert isinstance(place, Queued) and place.position == 1
        assert (await client.stats()).waiting == 1
        with pytest.raises(StreamFailed) as refused:
            await anext(client.generate(request()))
        assert refused.value.code == "busy" and refused.value.retry_after and 1 <= refused.value.retry_after <= 60
        await transport.close()  # no cancel was sent; that it is gone shows at the next word to it
        await speaking.aclose()
        stats = await quiet(client)
        assert stats.cancelled == before.cancelled + 2 and stats.failed == before.failed + 1
        assert all(isinstance(reply, Chunk) for reply in [reply async for reply in client.generate(request())])
