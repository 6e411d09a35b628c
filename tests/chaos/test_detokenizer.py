"""kill -9 of a detokenizer that has a process of its own, amid streams, or it hangs; and of the engine that has it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.engine.test_process import TEXT, connected, quiet, request
from tests.program import alive, children, module, process_of
from tests.waiting import eventually
from voxrtc.engine.client import StreamFailed
from voxrtc.settings import Settings

ENDS = (*[signal.SIGKILL] * 3, signal.SIGSTOP)


def detokenizer(of: int) -> int:
    """The engine's child; 0 when there is none."""
    return next((pid for pid in children(of) if module(pid) == "voxrtc.engine.detokenizer_process"), 0)


@pytest.mark.anyio
async def test_it_takes_its_streams_along_and_no_others(tmp_path: Path) -> None:
    address, settings = f"ipc://{tmp_path}/engine", Settings(disaggregated=True).environment()
    with process_of("voxrtc.engine.process", "--listen", address, **settings) as engine:
        async with connected(address) as client:
            for kill, how in enumerate(ENDS, 1):
                streams = [client.generate(request(TEXT * 20)) for _ in range(2)]
                for stream in streams:
                    await anext(stream)
                os.kill(detokenizer(engine.pid), how)
                for stream in streams:
                    with pytest.raises(StreamFailed) as failure:
                        async for _ in stream:
                            pass
                    assert failure.value.code == "engine_error"
                assert [chunk async for chunk in client.generate(request("Here I am again."))]
                stats = await quiet(client)
                assert (stats.failed, stats.finished) == (2 * kill, kill)
        child = detokenizer(engine.pid)
        engine.kill()
        eventually(lambda: not alive(child))
