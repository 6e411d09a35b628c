"""`python -m voxrtc.bench soak`: our engine at one rate for long. Does speech stay viable, and memory where it was?"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from dataclasses import asdict, dataclass

from voxrtc.bench.figures import header, row
from voxrtc.bench.systems import policy, running
from voxrtc.bench.workload import requests

FIRST, EVERY = 10, 100  # requests after which memory is looked at


@dataclass(frozen=True)
class Memory:
    """The engine's resident memory after so many requests."""

    requests: int
    rss_mb: float


async def soak(rate: float, minutes: float, seed: int) -> dict[str, object]:
    """The whole run is one: requests are never too many to remember."""
    come = requests(rate, max(1, math.ceil(60 * minutes * rate)), seed)
    memory: list[Memory] = []
    (system,) = policy("playout")
    async with running(system) as server:

        async def watch() -> None:
            while True:
                finished = (await server.client.stats()).finished
                due = FIRST if not memory else EVERY * (memory[-1].requests // EVERY + 1)
                if finished >= due:
                    memory.append(Memory(finished, (await server.usage()).rss))
                    print(f"{finished} requests: {memory[-1].rss_mb:.0f} MB", file=sys.stderr, flush=True)
                await asyncio.sleep(0.5)

        watching = asyncio.create_task(watch())
        run = await server.measure(rate, come)
        watching.cancel()
        memory.append(Memory((await server.client.stats()).finished, run.rss_mb))
    growth = memory[-1].rss_mb / memory[0].rss_mb
    print(f"{header()}\n{row(run)}", file=sys.stderr, flush=True)
    return {**run.report(), "memory": [asdict(reading) for reading in memory], "growth": growth}


def main(arguments: list[str]) -> None:
    """Figures of the run; `--json` for programs."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench soak", description=__doc__)
    parser.add_argument("--rate", type=float, required=True, help="streams a second; about 0.8 of goodput")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = asyncio.run(soak(options.rate, options.minutes, options.seed))
    if options.json:
        print(json.dumps(found))
    else:
        print(f"memory at the end / after {FIRST} requests: {found['growth']:.3f}")
