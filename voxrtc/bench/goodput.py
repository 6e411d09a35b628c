"""`python -m voxrtc.bench goodput`: the highest arrival rate at which p90 TTFA is 500 ms and 99% of streams never run dry.

Open loop over the engine's own socket, each system in a process of its own, with the same model, texts and pattern of
arrivals. A run is judged on all its streams, and cut short when it cannot pass any more. Where a policy has chunks of
fixed sizes, its best ones count. `--rate` makes one run at a fixed rate instead, `--concurrent` counts streams at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from voxrtc.bench.figures import Figures, header, row
from voxrtc.bench.load import GiveUp, hopeless, never
from voxrtc.bench.search import Search
from voxrtc.bench.systems import BASELINES, Server, System, baseline, policy, running
from voxrtc.bench.workload import planned, requests

POLICIES = ("playout", "fifo", "two_phase", "offline")
SCREENING = 12.0  # seconds of the short runs that choose sizes of chunks
STEP = 1.15  # by which these raise the bar
DISTURBED, REPEATS = 0.15, 2  # cores that others may use, and how often a run is made again for that


@dataclass(frozen=True)
class Plan:
    """What all runs of a command have in common."""

    seconds: float  # of arrivals
    seed: int

    async def run(self, server: Server, system: System, rate: float, give_up: GiveUp) -> Figures:
        """One run, told on stderr."""
        come = requests(rate, planned(rate, self.seconds), self.seed)
        outcome = await server.measure(rate, come, give_up)
        say(f"{system.label:20}{row(outcome)}  {'passed' if outcome.passed else ''}")
        return outcome

    async def judge(self, server: Server, system: System, rate: float) -> Figures:
        """A run of a search. One that failed while something else kept the machine busy says nothing, and is made again."""
        for _ in range(REPEATS):
            outcome = await self.run(server, system, rate, hopeless)
            if outcome.passed or outcome.others_cpu < DISTURBED:
                return outcome
        return await self.run(server, system, rate, hopeless)


@dataclass(frozen=True)
class Result:
    """A system's goodput, or 0 when it passed at no rate, and the figures of a run: of the best that passed, if any did."""

    system: System
    goodput: float
    run: Figures

    def report(self) -> dict[str, Any]:
        """For programs."""
        sizes = [self.system.settings.first_chunk, self.system.settings.chunk]
        return {"goodput": self.goodput, "chunks": sizes if any(sizes) else None, **self.run.report()}


def say(line: str) -> None:
    """Progress."""
    print(line, file=sys.stderr, flush=True)


async def goodput(variants: Sequence[System], start: float, plan: Plan) -> Result:
    """The search, at the best of a system's variants."""
    system = variants[0]
    if len(variants) > 1:
        system, start = await screen(variants, start, Plan(min(SCREENING, plan.seconds), plan.seed))
    search, best = Search(start), None
    async with running(system) as server:
        while not search.done:
            run = await plan.judge(server, system, search.rate)
            search.tell(run.passed)
            best = run if run.passed or best is None else best
    assert best is not None
    return Result(system, search.good, best)


async def screen(variants: Sequence[System], rate: float, plan: Plan) -> tuple[System, float]:
    """The variant that bears the highest rate in short runs, and that rate. Each has to bear what the one before did."""
    best = None
    while best is None:
        for system in variants:
            async with running(system) as server:
                while (await plan.judge(server, system, rate)).passed:
                    best, rate = system, rate * STEP
        rate /= STEP if best else STEP**3
    return best, rate


async def at_rate(variants: Sequence[System], rate: float, plan: Plan) -> Result:
    """One run of each variant at a fixed rate, to the end; the one with most viable streams counts."""
    runs = []
    for system in variants:
        async with running(system) as server:
            runs.append(Result(system, 0.0, await plan.run(server, system, rate, never)))
    return max(runs, key=lambda result: (result.run.viable_streams, -result.run.p90_ttfa))


def ratios(policies: dict[str, float], baselines: dict[str, float]) -> dict[str, float]:
    """How many times the others' goodput ours is, where both are known."""
    if not (ours := policies.get("playout")):
        return {}
    found = {f"playout / {name}": ours / rate for name, rate in baselines.items() if rate}
    if rivals := [policies[name] for name in ("fifo", "two_phase") if policies.get(name)]:
        found["playout / best of fifo and two_phase"] = ours / max(rivals)
    return found


async def compare(options: argparse.Namespace) -> dict[str, dict[str, Result]]:
    """All chosen systems, one after another. A policy's search begins where the one before ended."""
    plan, start = Plan(options.seconds, options.seed), options.start
    say(f"{'':20}{header()}")
    results: dict[str, dict[str, Result]] = {"policies": {}, "baselines": {}}
    for kind, names in (("policies", options.policy), ("baselines", options.baseline)):
        for name in names:
            if kind == "policies":
                variants = _sized(policy(name, options.model, options.random_weights), options.chunks)
            else:
                variants = baseline(name)
            if options.rate:
                results[kind][name] = await at_rate(variants, options.rate, plan)
            else:
                hint = (start if kind == "policies" else None) or variants[0].start
                results[kind][name] = await goodput(variants, hint, plan)
                start = results[kind][name].goodput or start
    return results


def _sized(variants: list[System], chunks: list[int] | None) -> list[System]:
    """Only the wanted size, where sizes are fixed."""
    wanted = [v for v in variants if [v.settings.first_chunk, v.settings.chunk] == chunks]
    assert wanted or not chunks or len(variants) == 1, f"sizes of chunks are {[v.label for v in variants]}"
    return wanted or variants


def table(results: Iterable[Result], ratio: dict[str, float], fixed_rate: bool) -> str:
    """For people."""
    lines = [f"{'':20}{'goodput':>9}{header()}"]
    for result in results:
        lines.append(f"{result.system.label:20}{'-' if fixed_rate else f'{result.goodput:.2f}':>9}{row(result.run)}")
    return "\n".join(lines + [f"{name}: {value:.2f}" for name, value in ratio.items()])


def arguments_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench goodput", description=__doc__)
    parser.add_argument("--policy", choices=(*POLICIES, "none"), action="append", help="default: playout, fifo, two_phase")
    parser.add_argument("--baseline", choices=(*BASELINES, "none"), action="append", help="all by default")
    parser.add_argument("--model", default="lark", help="of which the baselines can do Lark only, so give `--baseline none`")
    parser.add_argument("--random-weights", action="store_true", help="a model at its full size (see `random_engine.MODELS`)")
    parser.add_argument("--chunks", type=int, nargs=2, metavar=("FIRST", "LATER"), help="frames, where they are fixed")
    parser.add_argument("--seconds", type=float, default=40, help="of arrivals a run")
    parser.add_argument("--start", type=float, help="streams a second near which the policies' goodput is expected")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, help="one run at this many streams a second instead of a search")
    parser.add_argument("--concurrent", action="store_true", help="how many streams of 10 s at a time never run dry")
    parser.add_argument("--json", action="store_true")
    return parser


def main(arguments: list[str]) -> None:
    """A table, or with `--json` one object; progress goes to stderr."""
    options = arguments_parser().parse_args(arguments)
    options.policy = [name for name in options.policy or POLICIES[:3] if name != "none"]
    options.baseline = [name for name in options.baseline or BASELINES if name != "none"]
    if options.concurrent:
        from voxrtc.bench.capacity import capacity  # the only mode that needs torch

        found = asyncio.run(capacity(options.seed, say))
        print(json.dumps(found.report()) if options.json else found.line())
        return
    results = asyncio.run(compare(options))
    known = {kind: {name: result.goodput for name, result in found.items()} for kind, found in results.items()}
    ratio = ratios(**known)
    if options.json:
        reports = {kind: {name: result.report() for name, result in found.items()} for kind, found in results.items()}
        print(json.dumps({**reports, "ratios": ratio}))
    else:
        print(table([result for found in results.values() for result in found.values()], ratio, bool(options.rate)))
