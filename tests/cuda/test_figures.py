"""What graphs are worth on this GPU: tables for the report of `make test-cuda`. No time is right or wrong here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from statistics import median

import pytest
import torch

from tests.cuda.busy import Busy, busy, told
from tests.cuda.full import FULL, Row, full, refuse
from voxrtc.bench import goodput
from voxrtc.engine.graphs import Recorder
from voxrtc.engine.sound_stage import Chunk
from voxrtc.engine.worker import Worker
from voxrtc.speechlm.base import SpeechLM

ON_GPU = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")]
STREAMS, STEPS = (1, 4, 16, 32), 40
CALLS, CHUNKS = 12, (1, 4, 12)  # groups of frames a call
WARM = 4  # steps and calls in which things are done, then recorded
HOW: dict[str, Recorder | None] = {"without": refuse, "graphs": None}


def on_gpu(test):  # type: ignore[no-untyped-def]
    for mark in ON_GPU:
        test = mark(test)
    return test


def test_the_gaps_between_kernels() -> None:
    """Without a GPU, too: one that begins beside another is no gap."""
    seen = told([(0, 10), (35, 65), (2, 30)])
    assert seen == Busy(3, 1 - 5 / 65, 2.5, 5)


@on_gpu
@pytest.mark.parametrize("name", FULL)
def test_steps(name: str) -> None:
    pytest.importorskip("flashinfer", reason="pip install -r requirements-cuda.txt")
    model = full(name)
    print(f"\n{name:18} {'':8} streams  width  step ms  between two us  kernels  busy %  gap us  longest us  from graphs %")
    for how, recorder in HOW.items():
        for streams in STREAMS:
            row = Row(model, streams, recorder)
            row.run(WARM)
            steps = row.run(STEPS)
            ms = 1e3 * median(sum(step.seconds) for step in steps)
            gap = 1e6 * median(step.gap for step in steps if step.gap is not None)
            seen, share = busy(lambda row=row: row.run(5)), sum(step.recorded for step in steps) / STEPS  # type: ignore[misc]
            width = row.worker.attention.width(streams)
            print(
                f"{name:18} {how:8} {streams:7} {width:6} {ms:8.2f} {gap:15.1f} {seen.kernels / 5:8.0f} {100 * seen.share:7.1f}"
                f" {seen.gap:7.1f} {seen.longest:11.1f} {100 * share:14.0f}"
            )
            assert share == (how == "graphs")


def calls(model: SpeechLM, streams: int, frames: int, recorder: Recorder | None) -> Iterator[float]:
    """Seconds of a call each, samples on the host."""
    worker, codec = Worker(model, streams, recorder=recorder), model.detokenizer
    states = [codec.new_state(i) for i in range(streams)]
    for _ in range(WARM + CALLS):
        chunks = [Chunk(torch.randint(1, 2000, (frames * codec.group, model.codebooks)), state, False) for state in states]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for samples in worker.sound.decode(chunks):
            assert isinstance(samples, torch.Tensor), samples
        yield time.perf_counter() - began


@on_gpu
@pytest.mark.parametrize("name", ["orpheus", "csm"])
def test_calls_of_the_detokenizer(name: str) -> None:
    model = full(name)
    print(f"\n{name:10} streams  frames  call ms without  graphs")
    for streams in STREAMS:
        for frames in CHUNKS:
            found = [1e3 * median(list(calls(model, streams, frames, recorder))[WARM:]) for recorder in HOW.values()]
            print(f"{name:10} {streams:7} {frames:7} {found[0]:16.2f} {found[1]:7.2f}")
            assert model.detokenizer.record(streams, lambda key, work: (work(), False)), "else this table says nothing"


@on_gpu
@pytest.mark.parametrize("name", FULL)
def test_goodput_in_short(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine in its process, at a low rate for a few seconds: everybody is served, mostly from graphs."""
    full.cache_clear()  # the engine's process wants the memory
    torch.cuda.empty_cache()
    goodput.main(
        [
            "--model",
            name,
            "--random-weights",
            "--policy",
            "playout",
            "--baseline",
            "none",
            "--rate",
            "2",
            "--seconds",
            "8",
            "--json",
        ]
    )
    run = json.loads(capsys.readouterr().out)["policies"]["playout"]
    with capsys.disabled():
        print(f"\n{name}: {run}")
    assert (run["refused"], run["errors"], run["unserved"]) == (0, 0, 0)
    assert run["recorded"] > 0.3 and (run["codec_recorded"] > 0.3) == (name in ("orpheus", "csm"))
