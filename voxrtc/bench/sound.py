"""`python -m voxrtc.bench sound`: what making sound of speech tokens costs, without the model whose tokens they are.

Flows and HiFT at full size with random weights, in one voice of six seconds, a block of tokens a stream and call. One thread;
seconds are those of its CPU, so other programs disturb little.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn

from voxrtc.bench.random_models import sound_of
from voxrtc.speechlm.codecs.dit import DiTConfig
from voxrtc.speechlm.codecs.dit_flow import DiTFlow
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer
from voxrtc.speechlm.codecs.token_flow import FlowConfig, FlowPrompt, TokenFlow

VOICE = 150  # tokens
FLOWS: dict[str, Callable[[], TokenFlow]] = {
    "cosyvoice2": lambda: TokenFlow(FlowConfig()),
    "stepaudio2": lambda: DiTFlow(FlowConfig(estimator=DiTConfig())),
}
ROW = "{:12}{:>4}{:>20}{:>12}{:>10}{:>10}{:>8}{:>18}"
HEAD = ROW.format("flow of", "n", "s a second of sound", "a stream", "encoder", "estimator", "HiFT", "MB of a stream")


class Clock:
    """Seconds of networks, and of everything."""

    def __init__(self, **networks: nn.Module) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        for name, network in networks.items():
            network.register_forward_pre_hook(lambda *_, name=name: self._add(name, -1))
            network.register_forward_hook(lambda *_, name=name: self._add(name, 1))

    def _add(self, name: str, sign: int) -> None:
        self.seconds[name] += sign * time.thread_time()

    def take(self, work: Callable[[], Any]) -> dict[str, float]:
        """What `work` takes."""
        self.seconds = defaultdict(float, all=-time.thread_time())
        work()
        self._add("all", 1)
        return self.seconds


def measure(name: str, detokenizer: FlowDetokenizer, streams: list[int], calls: int) -> None:
    """Print its rows."""
    flow = detokenizer.flow
    clock = Clock(encoder=flow.encoder, estimator=flow.estimator, HiFT=detokenizer.hift)
    prompt = FlowPrompt(
        torch.randn(flow.config.speaker),
        torch.randint(flow.config.codes, (VOICE,)),
        torch.randn(2 * VOICE, flow.config.estimator.mel),
    )
    began = time.thread_time()
    voice = flow.prime(prompt)
    print(f"{name}: a voice takes {time.thread_time() - began:.1f} s and {voice.bytes / 1e6:.0f} MB", flush=True)
    for n in streams:
        states = [detokenizer.new_state(seed, voice) for seed in range(n)]
        took = [clock.take(partial(_call, detokenizer, states)) for _ in range(2 + calls)][2:]
        seconds = len(states) * flow.config.encoder.block * detokenizer.samples_per_group / detokenizer.sample_rate
        whole = median(each["all"] for each in took)
        parts = [f"{median(each[part] / each['all'] for each in took):.0%}" for part in ("encoder", "estimator", "HiFT")]
        own = states[0].flow.bytes - voice.bytes
        print(
            ROW.format(name, n, f"{n * whole / seconds:.2f}", f"{whole / seconds:.2f}", *parts, f"{own / 1e6:.1f}"), flush=True
        )


def _call(detokenizer: FlowDetokenizer, states: list[Any]) -> None:
    block = detokenizer.flow.config.encoder.block
    new = [torch.randint(detokenizer.flow.config.codes, (block, 1)) for _ in states]
    detokenizer.decode(new, states, [False] * len(states))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench sound", description=__doc__.splitlines()[0])
    parser.add_argument("--flows", nargs="+", default=list(FLOWS), choices=list(FLOWS))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 2, 4], help="at a time")
    parser.add_argument("--calls", type=int, default=5, help="of a second of sound for each stream")
    wanted = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(HEAD)
    for name in wanted.flows:
        measure(name, sound_of(FLOWS[name]()), wanted.streams, wanted.calls)
