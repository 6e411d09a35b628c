"""Two engines of Lark as Ray actors, behind one address: speech, a death, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.engine.test_process import TEXT, request
from tests.program import below
from tests.waiting import answered
from voxrtc.engine.client import EngineClient, EngineLost, StreamFailed
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages.engine import Chunk, Stats
from voxrtc.settings import Settings
from voxrtc.supervisor import Child, Supervisor

WITHIN = 120.0  # seconds for two replicas, on a machine that does something else, too


def actors(parent: int) -> list[int]:
    """The processes of Ray's below `parent` that have replicas in them."""
    return [pid for pid, words in below(parent).items() if words[0].startswith("ray::Actor")]


async def both(client: EngineClient) -> Stats:
    async def look() -> Stats | None:
        stats = await client.stats()
        return stats if len(stats.replicas) == 2 else None

    return await answered(look, EngineLost, within=WITHIN)


async def speech(client: EngineClient, begun: asyncio.Event | None = None) -> int:
    """Samples of one utterance."""
    samples = 0
    async for reply in client.generate(request(" ".join([TEXT] * 3))):
        if isinstance(reply, Chunk):
            samples += len(reply.pcm) // 2
            assert reply.timing is None or abs(time.monotonic() - reply.timing.accepted) < WITHIN
            if begun:
                begun.set()
    return samples


@pytest.mark.anyio
@pytest.mark.slow
async def test_two_replicas_speak_as_one_and_one_may_die(tmp_path: Path) -> None:
    settings = Settings(workers="ray", replicas=2)
    address = f"ipc://{tmp_path}/engine"
    child = Child("cluster", ["-m", "voxrtc.engine.cluster", "--listen", address], settings.environment())
    async with Supervisor([child]):
        client = EngineClient(ZmqTransport(address))
        await both(client)
        assert child.process
        pids = actors(child.process.pid)
        assert len(pids) == 2
        alone = await speech(client)
        assert await asyncio.gather(*(speech(client) for _ in range(4))) == [alone] * 4

        talking, places = [], Counter[str]()
        while len(places) < 2:  # one that learned its costs beside others' work may have less to do
            begun = asyncio.Event()
            talking.append(asyncio.create_task(speech(client, begun)))
            await begun.wait()
            places = Counter(stream.replica for stream in (await client.stats()).streams)
        os.kill(pids[0], signal.SIGKILL)
        ended = await asyncio.gather(*talking, return_exceptions=True)
        failed = [each for each in ended if isinstance(each, StreamFailed)]
        # One may have ended after the look
        assert 0 < len(failed) <= max(places.values()) and all(each.code == "engine_lost" for each in failed)
        assert [each for each in ended if isinstance(each, int)] == [alone] * (len(talking) - len(failed))
        assert await speech(client) == alone  # by the other one, at once
        await both(client)
        cluster = child.process.pid
        await client.close()
    assert actors(cluster) == [] and child.restarts == 0
