"""What is measured: our engine under its policies, and baselines, all with the same model behind the same protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from voxrtc.bench import program
from voxrtc.bench.figures import Figures, Usage, figures
from voxrtc.bench.load import GiveUp, listen, never
from voxrtc.bench.workload import Request
from voxrtc.engine.client import EngineClient, EngineLost
from voxrtc.engine.transport import ZmqTransport
from voxrtc.settings import Settings
from voxrtc.supervisor import Child, Supervisor

ENGINE = "voxrtc.engine.process"
RANDOM = "voxrtc.bench.random_engine"
FIXED = ((4, 4), (4, 8), (8, 8), (8, 16), (16, 16))  # frames of a first and a later chunk, tried where they are fixed
LOADING = 300.0  # seconds
WARM_UP = ("Yes.", "This is a sentence to warm up with.", "Good luck!", "And here is another one, a little longer.")


@dataclass(frozen=True)
class System:
    """Something that serves a model in a process of its own. `start` is about its goodput, where a search begins."""

    name: str
    start: float
    settings: Settings
    module: str = ENGINE

    @property
    def label(self) -> str:
        """Its name, and its sizes of chunks where they are set."""
        sizes = f" {self.settings.first_chunk}/{self.settings.chunk}" if self.settings.chunk else ""
        return self.name + sizes


def _settings(**changed: object) -> Settings:
    return Settings(log_level="WARNING", **changed)  # type: ignore[arg-type]


def policy(name: str, model: str = "lark", random_weights: bool = False) -> list[System]:
    """Our engine under a policy, once for each size of chunks that is to be tried."""
    sizes, module = FIXED if name in ("fifo", "two_phase") else ((0, 0),), RANDOM if random_weights else ENGINE
    every = [_settings(model=model, policy=name, first_chunk=first, chunk=chunk) for first, chunk in sizes]
    return [System(name, 8.0, settings, module) for settings in every]


def baseline(name: str) -> list[System]:
    """A baseline. One size of chunks for each: see there."""
    if name == "batch_1":
        return [System(name, 0.4, _settings(max_streams=1))]
    return [System(name, 0.3, _settings(), f"voxrtc.bench.baselines.{name}")]


BASELINES = ("one_at_a_time", "thread_per_request", "batch_1")


@dataclass
class Server:
    """A system that runs."""

    client: EngineClient
    child: Child

    async def usage(self) -> Usage:
        """Of its process and of the machine, from /proc, and what it says of itself."""
        assert self.child.process
        process = self.child.process.pid
        cpu = program.seconds(program.stat(process))
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        user, nice, system, _idle, _wait, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
        busy = (user + nice + system + sum(more)) / program.TICKS
        others = busy - cpu - time.process_time()
        stats = await self.client.stats()
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        if not stats.steps:
            return Usage(cpu, memory, others, None)
        codec = stats.codec_recorded / stats.codec_passes if stats.codec_passes else None
        gap = stats.lately.gap_ms and stats.lately.gap_ms / 1000
        return Usage(cpu, memory, others, stats.overhead, stats.recorded / stats.steps, codec, gap)

    async def measure(self, rate: float, requests: Sequence[Request], give_up: GiveUp = never) -> Figures:
        """One run, after a short warm-up."""
        await listen(self.client, [Request(0.0, text) for text in WARM_UP])
        loop, before = asyncio.get_running_loop(), await self.usage()
        began = loop.time()
        hearings = await listen(self.client, requests, give_up)
        return figures(rate, hearings, loop.time() - began, before, await self.usage())


@contextlib.asynccontextmanager
async def running(system: System) -> AsyncIterator[Server]:
    """Start a system, wait until it answers, stop it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/engine"
        child = Child(system.name, ["-m", system.module, "--listen", address], system.settings.environment())
        async with Supervisor([child]):
            client = EngineClient(ZmqTransport(address))
            try:
                await _loaded(client)
                yield Server(client, child)
            finally:
                await client.close()


async def _loaded(client: EngineClient) -> None:
    async with asyncio.timeout(LOADING):
        while True:
            with contextlib.suppress(EngineLost):
                await client.models()
                return
            await asyncio.sleep(0.05)
