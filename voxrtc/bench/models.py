"""`python -m voxrtc.bench models`: what a step and a detokenizer call cost, by family and streams at a time.

At full size, on one thread as in the engine, all but Lark with random weights. `--package PYTHON` measures Kyutai's
`pocket-tts` beside Pocket-TTS, on the same weights and in turn, by an interpreter that can import it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import torch
from safetensors.torch import load_file
from torch import Tensor

from voxrtc.bench import random_models
from voxrtc.bench.random_models import COSYVOICES, CSMS, ORPHEUSES, POCKETS, STEP_SHARE, STEPS
from voxrtc.engine.sound_stage import Chunk
from voxrtc.engine.worker import PAGE_SIZE, Task, Worker
from voxrtc.messages.engine import Sampling
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import Detokenizer, SpeechLM, Utterance
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer
from voxrtc.speechlm.cosyvoice2.model import HEARD_CODES, CosyVoice2
from voxrtc.speechlm.pocket.model import Pocket
from voxrtc.speechlm.pocket.text import MAX_TOKENS

TEXT = "The train to the coast leaves at ten, and it is never late, so we had better be there in time."
HEARD = (2, 10)  # seconds
CALLS_WITHIN = 10.0  # seconds for one round's calls of a slow detokenizer
PACKAGE = Path(__file__).parent / "baselines" / "pocket_package.py"


@dataclass
class Costs:
    """Seconds of steps, and of detokenizer calls of `chunk` frames a stream, for `streams` at a time."""

    name: str
    streams: int
    frame_rate: float
    chunk: int = 1
    share: int = 1  # one in so many of the model's layers is run; in `step` the others are counted as if they were, too
    step: list[float] = field(default_factory=list)
    choosing: list[float] = field(default_factory=list)  # of a step, choosing a frame's codes
    codec: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)  # of a codec call, where it has parts

    @property
    def real_time(self) -> float:
        """Seconds of sound, over all streams, that one core makes in a second."""
        return self.streams / ((median(self.step) + median(self.codec) / self.chunk) * self.frame_rate)

    def row(self, baseline: Costs | None) -> str:
        """A line of the table, under `HEAD`."""
        ratio = f"{self.real_time / baseline.real_time:.2f} x" if baseline else ""
        choosing = f"{1e3 * median(self.choosing):.2f}" if self.choosing else ""
        cells = [
            _spread(self.step),
            choosing,
            _spread(self.codec),
            f"{1 / median(self.step):.1f}",
            f"{self.real_time:.2f}",
            ratio,
        ]
        return ROW.format(self.name, self.streams, *cells)


ROW = "{:16}{:>4}{:>27}{:>10}{:>30}{:>9}{:>9}{:>9}"
HEAD = ROW.format("model", "n", "step, ms (p10 to p90)", "of codes", "codec call, ms", "steps/s", "x real", "package")


def _spread(seconds: list[float]) -> str:
    """Median, tenth and ninetieth percentile, in milliseconds."""
    if len(seconds) < 3:
        return f"{1e3 * median(seconds):.2f} ({len(seconds)} of them)"
    tenths = quantiles(seconds, n=10)
    return f"{1e3 * median(seconds):.2f} ({1e3 * tenths[0]:.2f} to {1e3 * tenths[-1]:.2f})"


class Ours:
    """Streams of a model in the engine's worker, without the engine."""

    def __init__(self, name: str, model: SpeechLM, streams: int, share: int = 1) -> None:
        self.costs = Costs(name, streams, model.frame_rate, model.detokenizer.min_chunk, share)
        pages = streams * -(-model.cache.positions // PAGE_SIZE)  # for all at their longest
        prompt = model.preprocess(Utterance(model.split(TEXT)[0]))
        self.worker, voice = Worker(model, streams, pages), model.voice_of(prompt)
        self.states = [self.worker.sound.begin(voice, seed) for seed in range(streams)]
        for slot in range(streams):
            self.worker.admit(slot, prompt, Sampling(), seed=slot, step=0)
        self.position = prompt.length
        self.frames = self._step([Task(slot, prompt.known, prompt.length - prompt.known, True) for slot in range(streams)])

    def _step(self, tasks: list[Task]) -> list[Tensor]:
        step = self.worker.launch(tasks)
        self.forward, choosing = step.seconds
        self.costs.choosing.append(choosing)
        return [result[0] for result in step.results() if isinstance(result, tuple)]

    def step(self) -> None:
        """One more frame a stream."""
        self.frames = self._step([Task(slot, self.position, 1, True) for slot in range(self.costs.streams)])
        assert len(self.frames) == self.costs.streams, "a stream broke"
        self.position += 1

    def decode(self) -> None:
        """One call of the detokenizer."""
        frames = [frame.expand(self.costs.chunk, -1) for frame in self.frames]
        with _timed(self.worker.model.detokenizer, self.costs.parts):
            self.worker.sound.decode([Chunk(*part, False) for part in zip(frames, self.states, strict=True)])

    def measure(self, count: int) -> None:
        for _ in range(count):
            seconds = _seconds(self.step)
            self.costs.step.append(seconds + (self.costs.share - 1) * self.forward)
        began = time.perf_counter()
        for _ in range(count):
            self.costs.codec.append(_seconds(self.decode))
            if time.perf_counter() - began > CALLS_WITHIN:
                break


class Package:
    """Kyutai's package in an interpreter of its own, which waits while it is not asked."""

    def __init__(self, python: str, folder: Path, config: str) -> None:
        self.costs = Costs("pocket-tts", 1, 12.5)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [python, str(PACKAGE), str(folder), config],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout
        self.ask, self.answers = self.process.stdin, self.process.stdout
        assert self.answers.readline() == "ready\n", "the package does not run"

    def measure(self, count: int) -> None:
        print(count, file=self.ask, flush=True)
        measured = json.loads(self.answers.readline())
        self.costs.step += measured["step"]
        self.costs.codec += measured["codec"]

    def close(self) -> None:
        self.ask.close()
        self.process.wait()


@contextmanager
def _timed(detokenizer: Detokenizer, seconds: dict[str, list[float]]) -> Iterator[None]:
    """Meanwhile, note what each call of a detokenizer's two networks takes, where it has two."""
    if not isinstance(detokenizer, FlowDetokenizer):
        yield
        return
    hooks, began = [], [0.0]
    for name, network in (("flow", detokenizer.flow), ("HiFT", detokenizer.hift)):
        noted = seconds.setdefault(name, [])
        hooks.append(network.register_forward_pre_hook(lambda *_: began.__setitem__(0, time.perf_counter())))
        hooks.append(network.register_forward_hook(lambda *_, noted=noted: noted.append(time.perf_counter() - began[0])))
    yield
    for hook in hooks:
        hook.remove()


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _model(name: str, folder: Path) -> SpeechLM:
    if name in POCKETS:
        return random_models.pocket(name, folder)
    if name in CSMS:
        return random_models.csm(CSMS[name])
    if name in COSYVOICES:
        return random_models.cosyvoice2(COSYVOICES[name])
    if name in ORPHEUSES:
        return random_models.orpheus(ORPHEUSES[name])
    if name in STEPS:
        return random_models.stepaudio2(STEPS[name])
    return registry.load(ROOT / "models", name)[1]


def _check(model: Pocket, folder: Path) -> str:
    """How far our first latents without noise, and their sound, are from the package's."""
    example = load_file(folder / "example.safetensors")
    worker, state = Worker(model, 1), model.detokenizer.new_state(0)
    prompt = model.preprocess(Utterance("x" * 2 * MAX_TOKENS))
    worker.admit(0, prompt, Sampling(temperature=0.0), seed=0, step=0)
    start, count, latents = prompt.known, prompt.length - prompt.known, []
    for _ in example["latents"]:
        [result] = worker.launch([Task(0, start, count, True)]).results()
        assert isinstance(result, tuple), result
        latents.append(result[0])
        start, count = start + count, 1
    made = torch.stack(latents)
    [sound] = model.detokenizer.decode([made], [state], [True])
    expected = torch.cat([example["sound"][:120] * torch.linspace(0, 1, 120), example["sound"][120:]])
    pairs = (("latents", made, example["latents"]), ("sound", sound, expected))
    return "; ".join(f"{what} {(a - b).abs().max():.1e} of {b.abs().max():.2f}" for what, a, b in pairs)


def _run(name: str, streams: list[int], rounds: int, python: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="voxrtc-") as temporary:
        folder = Path(temporary)
        package = Package(python, folder, POCKETS[name]) if python and name in POCKETS else None
        model = _model(name, folder)
        if isinstance(model, CosyVoice2):
            print(
                f"  a voice: {model.size(model.default) / 1e9:.2f} GB for {HEARD_CODES / model.frame_rate:.0f} s of a recording"
            )
        ours = [Ours(name, model, n, STEP_SHARE if name in STEPS else 1) for n in streams]
        runs = [package, *ours] if package else ours
        _measure(runs, rounds)
        for run in runs:
            print(run.costs.row(package.costs if package else None), flush=True)
            if run.costs.parts:
                print("  of a call, ms:", ", ".join(f"{part} {_spread(each)}" for part, each in run.costs.parts.items()))
        print(f"  most memory so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
        if model.hears:
            print("seconds to hear: " + ", ".join(f"{_hearing(model, n):.2f} for {n} s" for n in HEARD))
        if package and isinstance(model, Pocket):
            print("furthest from the package:", _check(model, folder))
            package.close()


def _hearing(model: SpeechLM, seconds: int) -> float:
    """What it takes to hear so many seconds of sound that has just ended, none of them ahead."""
    sound = 0.1 * torch.randn(seconds * model.hearing_rate)
    return min(_seconds(lambda: model.hear(model.listen(), sound, True)) for _ in range(2))


def _measure(runs: Sequence[Ours | Package], rounds: int) -> None:
    """All in turn, so that what else the machine does meets all alike."""
    for run in runs:
        run.measure(3)  # the first ones are slow
        for seconds in (run.costs.step, run.costs.choosing, run.costs.codec, *run.costs.parts.values()):
            seconds.clear()
    for _ in range(rounds):
        for run in runs:
            run.measure(20)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench models", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        nargs="+",
        default=["lark", *POCKETS],
        choices=["lark", *POCKETS, *COSYVOICES, *CSMS, *ORPHEUSES, *STEPS],
    )
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 4, 8], help="at a time")
    parser.add_argument("--rounds", type=int, default=5, help="of 20 steps and calls")
    parser.add_argument("--package", metavar="PYTHON", help="an interpreter that can import pocket_tts")
    wanted = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(HEAD)
    for name in wanted.models:
        _run(name, wanted.streams, wanted.rounds, wanted.package)
