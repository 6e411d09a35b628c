"""`python -m voxrtc.bench crowd --listeners 48`: the page's crowd, without the page, under each policy in turn.

Each policy has the engine to itself, from an empty house on, in each of several rounds. Among the crowd one stands for people:
it asks for a sentence, hears it, and asks for the next, and virtual listeners give way to it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from voxrtc.bench.load import rest
from voxrtc.bench.systems import Server, System, running
from voxrtc.crowd.crowd import Crowd
from voxrtc.crowd.hearing import Hearing, hear
from voxrtc.crowd.tally import Figures
from voxrtc.crowd.texts import text_of
from voxrtc.engine.client import EngineClient
from voxrtc.messages.engine import Chunk, Generate, Playout, PolicyName, Queued
from voxrtc.messages.model import ModelInfo
from voxrtc.recent import quantile
from voxrtc.settings import Settings

POLICIES: tuple[PolicyName, ...] = ("fifo", "two_phase", "playout")
SENTENCE, PAUSE = 4.0, 1.0  # seconds of what a person asks for, and between two of them

_streams = itertools.count()


@dataclass
class Alone:
    """One engine with the face of all: see `crowd.Engines`."""

    client: EngineClient

    @property
    def known(self) -> list[ModelInfo]:
        return [self.client.info] if self.client.info else []

    def generate(self, request: Generate) -> AsyncGenerator[Queued | Chunk, None]:
        return self.client.generate(request)

    def report(self, playout: Playout) -> None:
        self.client.report(playout)

    def plan_by(self, policy: PolicyName) -> None:
        self.client.plan_by(policy)


@dataclass(frozen=True)
class Run:
    """A policy's turn in a round."""

    policy: PolicyName
    crowd: Figures
    waiting: float  # virtual listeners without sound yet, on the average
    people: list[Hearing]
    paused: float  # share of the time in which the crowd stood for people
    others_cpu: float  # cores that something else kept busy

    def report(self) -> dict[str, Any]:
        """For programs. The people's times in seconds."""
        ttfa = [hearing.ttfa for hearing in self.people if hearing.ttfa is not None]
        return {
            "policy": self.policy,
            **{field: getattr(self.crowd, field) for field in self.crowd.__struct_fields__},
            "viable": 1 - self.crowd.dry / max(1, self.crowd.started),
            "waiting": round(self.waiting, 1),
            "paused": self.paused,
            "people": len(ttfa),
            "people_dry": sum(hearing.player.stalled for hearing in self.people),
            "people_p50_ttfa": quantile(ttfa, 0.5),
            "people_p90_ttfa": quantile(ttfa, 0.9),
            "others_cpu": self.others_cpu,
        }


async def people(client: EngineClient, heard: list[Hearing]) -> None:
    """One after another, until cancelled."""
    rng = random.Random(0)
    while True:
        await asyncio.sleep(PAUSE)
        hearing = Hearing(time.monotonic())
        stream = f"person {next(_streams)}"
        await hear(client, Generate(stream=stream, text=text_of(SENTENCE, rng), accepted=hearing.scheduled), hearing)
        heard.append(hearing)
        await asyncio.sleep(hearing.slack(time.monotonic()))


async def turn(server: Server, policy: PolicyName, listeners: int, seconds: float, seed: int) -> Run:
    """From nobody to nobody."""
    crowd = Crowd(Alone(server.client), listeners, rng=random.Random(seed))
    crowd.plan_by(policy)
    heard: list[Hearing] = []
    before, paused, began = await server.usage(), (await server.client.stats()).paused, time.monotonic()
    crowd.resize(listeners)
    asking = asyncio.create_task(people(server.client, heard))
    await asyncio.sleep(seconds)
    state, after, took = crowd.look(), await server.usage(), time.monotonic() - began
    paused = (await server.client.stats()).paused - paused
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await crowd.close()
    await rest(server.client)
    line = state.line[len(state.line) // 3 :]
    waiting = sum(point.waiting for point in line) / max(1, len(line))
    return Run(policy, state.figures[policy], waiting, heard, paused / took, (after.others - before.others) / took)


async def compare(options: argparse.Namespace) -> list[Run]:
    """All turns, told on stderr as they end."""
    first, later = options.chunks or (0, 0)
    settings = Settings(log_level="WARNING", first_chunk=first, chunk=later, max_waiting=options.listeners + 1)
    system = System("crowd", 0.0, settings)
    runs = []
    async with running(system) as server:
        print(header(), file=sys.stderr, flush=True)
        for seed, policy in itertools.product(range(options.rounds), options.policy or POLICIES):
            runs.append(await turn(server, policy, options.listeners, options.seconds, seed))
            print(row(runs[-1]), file=sys.stderr, flush=True)
    return runs


COLUMNS = (
    ("streams", "started", "{:.0f}", 1),
    ("never dry %", "viable", "{:.1f}", 100),
    ("TTFA p50", "p50_ttfa", "{:.2f}", 1),
    ("p90 s", "p90_ttfa", "{:.2f}", 1),
    ("waiting", "waiting", "{:.1f}", 1),
    ("paused %", "paused", "{:.1f}", 100),
    ("people", "people", "{:.0f}", 1),
    ("dry", "people_dry", "{:.0f}", 1),
    ("TTFA p50", "people_p50_ttfa", "{:.2f}", 1),
    ("p90 s", "people_p90_ttfa", "{:.2f}", 1),
    ("others", "others_cpu", "{:.2f}", 1),
)  # heading, field, format, factor


def header() -> str:
    """The headings of a table of runs."""
    return f"{'policy':12}" + "".join(f"{heading:>13}" for heading, *_ in COLUMNS)


def row(run: Run) -> str:
    """A line of the table."""
    told = run.report()
    cells = ("-" if told[name] is None else form.format(factor * told[name]) for _, name, form, factor in COLUMNS)
    return f"{run.policy:12}" + "".join(f"{cell:>13}" for cell in cells)


def main(arguments: list[str]) -> None:
    """A line a turn; `--json` for programs."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench crowd", description=__doc__)
    parser.add_argument("--listeners", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=30, help="of each turn")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--policy", choices=POLICIES, action="append", help="all by default")
    parser.add_argument("--chunks", type=int, nargs=2, metavar=("FIRST", "LATER"), help="frames, in policies of fixed sizes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    runs = asyncio.run(compare(options))
    if options.json:
        print(json.dumps([run.report() for run in runs]))
