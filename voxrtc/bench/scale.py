"""`python -m voxrtc.bench scale`: goodput of several replicas behind the live router, by that of one.

Replicas are the simulator's (`simulate`): live policies on a virtual clock, with measured costs. What is not simulated is the
way between router and replica, a fraction of a millisecond in one building, and that machines differ.

`--real` runs two engines here, as Ray actors behind the router and as plain processes without one, and compares how much sound
they make in a second for as many listeners as like.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import itertools
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from voxrtc.bench.load import listen
from voxrtc.bench.search import Search
from voxrtc.bench.simulate import TABLES, Outcome, Simulation, Table, arrivals
from voxrtc.bench.systems import WARM_UP, System, running
from voxrtc.bench.workload import Request
from voxrtc.crowd.texts import text_of
from voxrtc.engine.client import EngineClient
from voxrtc.engine.costs import LinearCost
from voxrtc.engine.router import Replica, capacity, choose
from voxrtc.engine.scheduler import POLICIES
from voxrtc.messages.engine import Chunk, CostStats, Generate
from voxrtc.settings import Settings

REPLICAS = (1, 2, 8, 64)
PRECISION = 1.01
CROWD, SETTLING = 24, 5.0  # listeners of a real run, and the seconds before it counts


@dataclass
class Cluster:
    """Replicas of a model, and what a router knows of each: how many streams it gave it that have not ended."""

    table: Table
    replicas: Sequence[Simulation]

    def run(self, come: Sequence[tuple[float, int]], horizon: float) -> Outcome:
        """All arrivals, each on the replica that the router chose as it came."""
        room = capacity_of(self.table)
        for at, frames in come:
            for replica in self.replicas:
                replica.advance(at)
            known = [Replica(f"{number:02}", replica.live, room) for number, replica in enumerate(self.replicas)]
            self.replicas[int(choose(known))].submit(at, frames)
        return together([replica.run(horizon) for replica in self.replicas])


def capacity_of(table: Table) -> int:
    """What an engine of these costs would be known to bear."""
    step, codec = (LinearCost(weights, terms) for weights, terms in ((table.step, STEP), (table.codec, CODEC)))
    nothing = LinearCost((0.0, 0.0), STEP[:1])
    return capacity({"step": _told(step), "depth": _told(nothing), "codec": _told(codec)}, table.frame_rate, table.slots)


STEP, CODEC = ("stream", "prompt token"), ("stream", "frame")


def _told(cost: LinearCost) -> CostStats:
    """A table's costs count as learned."""
    return replace(cost.told(), observed=1)


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """Of all replicas as one."""
    done = sum(outcome.done for outcome in outcomes)
    return Outcome(
        list(heapq.merge(*(sorted(outcome.ttfa) for outcome in outcomes))),
        sum(outcome.viable * outcome.done for outcome in outcomes) / max(1, done),
        [stall for outcome in outcomes for stall in outcome.stalls],
        done,
        sum(outcome.unserved for outcome in outcomes),
    )


def goodput(table: Table, count: int, seconds: float, seed: int, hint: float) -> float:
    """The highest rate at which `count` replicas meet goodput's terms."""

    def good(rate: float) -> bool:
        replicas = [Simulation(table, POLICIES["playout"], ()) for _ in range(count)]
        return Cluster(table, replicas).run(arrivals(rate, seconds, table, seed), 1.5 * seconds + 10).good

    return searched(good, hint)


def searched(good: Callable[[float], bool], hint: float) -> float:
    """The highest rate that is good, near `hint`."""
    search = Search(rate=hint, precision=PRECISION, step=1.05, highest=1e6)
    while not search.done:
        search.tell(good(search.rate))
    return search.good


def main(arguments: list[str]) -> None:
    """A line for each number of replicas; `--json` for programs."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench scale", description=__doc__)
    parser.add_argument("--table", choices=TABLES, default="lark")
    parser.add_argument("--replicas", type=int, action="append", help=f"default: {', '.join(map(str, REPLICAS))}")
    parser.add_argument("--seconds", type=float, default=40, help="of arrivals a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true", help="two engines on this machine, Ray's and plain")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.real:
        real(options.seconds, options.seed, options.json)
        return
    table, found = TABLES[options.table], {}
    for count in options.replicas or REPLICAS:
        one = found.get(1)
        found[count] = goodput(table, count, options.seconds, options.seed, count * one if one else 8.0)
        if not options.json:
            ratio = f"   {found[count] / found[1]:6.2f} of one" if 1 in found else ""
            print(f"{options.table:16} {count:3} replicas: {found[count]:8.2f} streams a second{ratio}", flush=True)
    if options.json:
        print(json.dumps({"table": options.table, "goodput": found}))


def real(seconds: float, seed: int, as_json: bool) -> None:
    """Both ways by turns, twice, since the machine may be busy with something else once."""
    found: dict[str, list[float]] = {"ray": [], "plain": []}
    for name in ("ray", "plain", "plain", "ray"):
        found[name].append(asyncio.run(_sound_a_second(name, seconds, seed)))
        if not as_json:
            print(f"two replicas, {name:5}: {found[name][-1]:6.2f} s of sound a second", flush=True)
    ratio = sum(found["ray"]) / sum(found["plain"])
    print(json.dumps({**found, "ratio": ratio}) if as_json else f"ray / plain: {ratio:.2f}")


async def _sound_a_second(name: str, seconds: float, seed: int) -> float:
    cluster = System(name, 0, Settings(log_level="WARNING", workers="ray", replicas=2), "voxrtc.engine.cluster")
    single = System(name, 0, Settings(log_level="WARNING"))
    async with contextlib.AsyncExitStack() as running_:
        servers = [await running_.enter_async_context(running(each)) for each in ([cluster] if name == "ray" else [single] * 2)]
        clients = [server.client for server in servers]
        while name == "ray" and len((await clients[0].stats()).replicas) < 2:
            await asyncio.sleep(0.1)
        return await sound_a_second(clients, seconds, seed)


async def sound_a_second(clients: Sequence[EngineClient], seconds: float, seed: int) -> float:
    """Of what engines make for as many listeners as like, shared out evenly."""
    for client in clients:
        await listen(client, [Request(0.0, text) for text in WARM_UP])
    sound: list[float] = []
    crowd = [asyncio.create_task(_insatiable(clients[n % len(clients)], n, seed, sound)) for n in range(CROWD)]
    await asyncio.sleep(SETTLING)
    before = sum(sound)
    await asyncio.sleep(seconds)
    made = sum(sound) - before
    for listener in crowd:
        listener.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    return made / seconds


async def _insatiable(client: EngineClient, number: int, seed: int, sound: list[float]) -> None:
    """Has one text after another spoken, and notes each chunk's seconds."""
    chance = random.Random(f"{seed} {number}")
    for turn in itertools.count():
        request = Generate(stream=f"{number} {turn}", text=text_of(5.0, chance), accepted=time.monotonic())
        async for reply in client.generate(request):
            if isinstance(reply, Chunk):
                sound.append(len(reply.pcm) / 2 / reply.sample_rate)
