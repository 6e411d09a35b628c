"""`python -m voxrtc.bench stages`: language model and detokenizer in a process each, beside both in one.

Each way twice, by turns: the sound that one engine makes in a second for as many listeners as like, and how soon the first
comes at a fixed rate of arrivals. And what the line between the two processes costs a call: the same with a detokenizer that
computes nothing, less that one without a line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch
from torch import Tensor

from voxrtc.bench.scale import sound_a_second
from voxrtc.bench.systems import System, running
from voxrtc.bench.workload import planned, requests
from voxrtc.engine.detokenizer_process import Detokenizing, serve
from voxrtc.engine.line import Line
from voxrtc.engine.process_stage import Peer, ProcessStage
from voxrtc.engine.sound_stage import Chunk, LocalStage, SoundStage
from voxrtc.settings import Settings
from voxrtc.speechlm.base import Detokenizer, Voice

WAYS = {"together": False, "apart": True}
CALLS, FRAMES = 200, 8  # of a stream: 0.2 s of Lark's sound
STREAMS = (1, 16, 64)


@dataclass(frozen=True)
class Run:
    """Of one way, once."""

    sound: float  # seconds a second
    p50_ttfa: float  # seconds
    p90_ttfa: float
    viable: float  # share of streams
    others: float  # cores that something else kept busy


async def run(way: str, seconds: float, rate: float, seed: int) -> Run:
    """A fresh engine."""
    settings = Settings(log_level="WARNING", disaggregated=WAYS[way])
    async with running(System(way, rate, settings)) as server:
        sound = await sound_a_second([server.client], seconds, seed)
        found = await server.measure(rate, requests(rate, planned(rate, seconds), seed))
    return Run(sound, found.p50_ttfa, found.p90_ttfa, found.viable_streams, found.others_cpu)


def mean(runs: Sequence[Run], name: str) -> float:
    """Of a field."""
    return fmean(float(vars(each)[name]) for each in runs)


class Silence(Detokenizer):
    """As much sound as Lark's, for nothing."""

    sample_rate, samples_per_group, lookahead, min_chunk = 24_000, 600, 0, 1

    def new_state(self, seed: int, voice: Voice = None) -> None:
        """It has none."""

    def decode(self, frames: list[Tensor], states: list[None], final: list[bool]) -> list[Tensor]:
        return [torch.zeros(self.samples_per_group * len(part)) for part in frames]


def line_cost(streams: int) -> float:
    """Seconds that the way there and back takes, in a call of so many streams."""
    ours, theirs = map(Line, socket.socketpair())
    answering = (theirs, Detokenizing(Silence(), streams), lambda: 0.0)
    process = multiprocessing.get_context("fork").Process(target=serve, args=answering, daemon=True)
    process.start()
    theirs.close()
    stage = ProcessStage(lambda: Peer(ours, _Forked(process)))
    try:
        return _call(stage, streams) - _call(LocalStage(Silence(), streams), streams)
    finally:
        stage.stop()


@dataclass(frozen=True)
class _Forked:
    """A `process_stage.Runs`."""

    process: multiprocessing.process.BaseProcess

    def wait(self) -> int:
        self.process.join()
        return self.process.exitcode or 0

    def poll(self) -> int | None:
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()


def _call(stage: SoundStage, streams: int) -> float:
    frames = torch.zeros(FRAMES, 7, dtype=torch.long)
    chunks = [Chunk(frames, stage.begin(None, seed), False) for seed in range(streams)]
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        stage.decode(chunks)
        times.append(time.perf_counter() - began)
    return median(times)


def main(arguments: list[str]) -> None:
    """A line a run; `--json` for programs."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench stages", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rate", type=float, default=8, help="streams a second, where first sounds are timed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lines = {streams: 1e3 * line_cost(streams) for streams in STREAMS}
    found: dict[str, list[Run]] = {way: [] for way in WAYS}
    for way in ("together", "apart", "apart", "together"):
        found[way].append(one := asyncio.run(run(way, options.seconds, options.rate, options.seed)))
        if not options.json:
            first = f"first sound after {1e3 * one.p50_ttfa:.0f} ms, p90 {1e3 * one.p90_ttfa:.0f}"
            rest = f"never dry {one.viable:.1%}, others {one.others:.2f} cores"
            print(f"{way:9}{one.sound:6.1f} s of sound a second; at {options.rate:g}/s {first}; {rest}", flush=True)
    ratios = {name: mean(found["apart"], name) / mean(found["together"], name) for name in ("sound", "p50_ttfa", "p90_ttfa")}
    if options.json:
        runs = {way: [vars(each) for each in runs] for way, runs in found.items()}
        print(json.dumps({**runs, "apart / together": ratios, "line_ms": lines}))
    else:
        print("apart / together: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
        print("the line, ms a call: " + ", ".join(f"{streams} streams {ms:.2f}" for streams, ms in lines.items()))
