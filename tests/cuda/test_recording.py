"""CUDA graphs on a real GPU: that they repeat what is done without, of steps and of detokenizers, and beside each other."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.cuda.full import FULL, GPU, full, refuse
from tests.engine.toy import Bench
from tests.speechlm.families import MODELS, RECORDED, Voice, speak
from voxrtc.bench import random_models
from voxrtc.engine.device import Device
from voxrtc.engine.graphs import CudaRecorder, Graphs
from voxrtc.engine.sdpa_attention import SdpaAttention
from voxrtc.speechlm.base import Placement

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")]

HISTORY = [(0, [1, 2, 3, 2, 2, 1]), (1, [4, 1, 0, 2, 2]), (1, [7]), (2, [1, 1, 1, 1, 1]), (3, [40, 2])]


WAYS = [*((name, True) for name in FULL), *((name, False) for name in MODELS)]


@pytest.mark.parametrize(("name", "whole"), WAYS, ids=[f"{name}-{'full' if whole else 'tiny'}" for name, whole in WAYS])
def test_steps_from_graphs_say_what_they_say_without(name: str, whole: bool, tmp_path: Path) -> None:
    """The same tokens, greedy and drawn, beside each other, by streams that come and go; most steps are repeated.

    Full models by FlashInfer's attention, tiny ones in float32 by torch's.
    """
    if whole:
        pytest.importorskip("flashinfer", reason="pip install -r requirements-cuda.txt")
    said, benches = {}, {}
    for recorder in (None, refuse):
        model = full(name) if whole else MODELS[name](tmp_path, Placement(GPU))
        bench = Bench(slots=4, page_size=64, model=model, recorder=recorder)
        assert (type(bench.worker.attention) is SdpaAttention) != whole
        for seed, temperature in enumerate((0.0, 0.8, 0.8, 0.0, 0.7)):
            bench.speak(str(seed), "Hello there. It is late.", seed=seed, temperature=temperature)
            for _ in range(3):
                bench.step()
        bench.run()
        said[recorder], benches[recorder] = bench.codes, bench
    assert said[None] == said[refuse]
    steps, worker = benches[None].engine.counters, benches[None].worker
    assert worker.graphs and worker.graphs.count
    print(f"{name}: {steps.recorded} of {steps.steps} steps from {worker.graphs.count} graphs")
    assert (worker.sound.graphs is not None) == name.startswith(RECORDED)
    if codec := worker.sound.graphs:
        print(f"{name}: {codec.repeats} of {codec.runs} passes of the detokenizer from {codec.count} graphs")
        assert codec.repeats


def voices(name: str, folder: Path) -> Voice:
    """Detokenizers on the GPU, at their full size or tiny ones."""
    if name == "snac":
        return Voice(random_models.snac(GPU), (4096,) * 7)
    if name == "mimi":
        return Voice(random_models.mimi(GPU), (2048,) * 32, noise=False)
    model = MODELS[name](folder, Placement(GPU))
    return Voice(model.detokenizer, latent=model.network.config.latent, noise=False)  # type: ignore[attr-defined]


class There:
    """A voice whose frames are on the GPU, and whose sound comes home."""

    def __init__(self, voice: Voice) -> None:
        self.voice, self.detokenizer = voice, voice.detokenizer

    def utterance(self, frames: int, seed: int = 0) -> Tensor:
        return self.voice.utterance(frames, seed).to(GPU)


@pytest.mark.parametrize("name", ["snac", "mimi", "pocket-plain"])
def test_a_detokenizer_from_graphs_is_exact(name: str, tmp_path: Path) -> None:
    """Streams that join and leave, in chunks of any size, twice over: as alone and at once, to 1e-4."""
    plain, graphs = There(voices(name, tmp_path)), Graphs(CudaRecorder(GPU))
    expected = [
        plain.detokenizer.decode([plain.utterance(sum(chunks), i)], [plain.detokenizer.new_state(i)], [True])[0].cpu()
        for i, (_, chunks) in enumerate(HISTORY)
    ]
    with torch.inference_mode():
        assert plain.detokenizer.record(4, graphs.run)
        for _ in range(3):
            for streamed, whole in zip(speak(plain, HISTORY), expected, strict=True):  # type: ignore[arg-type]
                sound = torch.cat(streamed).cpu()
                assert sound.shape == whole.shape and (sound - whole).abs().max() <= 1e-4
    assert graphs.repeats > graphs.runs / 2
    print(f"{name}: {graphs.repeats} of {graphs.runs} passes from {graphs.count} graphs")


@pytest.mark.parametrize("recording", [True, False])
def test_steps_beside_it_do_not_disturb_the_detokenizers_stream(recording: bool, tmp_path: Path) -> None:
    """On two threads, and while the other one records."""
    voice, device, quiet = There(voices("snac", tmp_path)), Device(GPU, time.monotonic), threading.Event()
    graphs = Graphs(CudaRecorder(GPU) if recording else refuse)
    x = torch.randn(2048, 2048, device=GPU)

    def busy() -> None:
        others = Graphs(CudaRecorder(GPU))
        for size in range(10_000):
            part = x[: 64 + 8 * (size % 64)]
            others.run(len(part), lambda part=part: (part @ x).relu().sum())  # type: ignore[misc]
            if quiet.is_set():
                return

    with device.detokenizing(), torch.inference_mode():
        assert voice.detokenizer.record(4, graphs.run)
        expected = [torch.cat(sound).cpu() for sound in speak(voice, HISTORY)]  # type: ignore[arg-type]
        beside = threading.Thread(target=busy)
        beside.start()
        try:
            for _ in range(5):
                for streamed, alone in zip(speak(voice, HISTORY), expected, strict=True):  # type: ignore[arg-type]
                    assert (torch.cat(streamed).cpu() - alone).abs().max() <= 1e-5
        finally:
            quiet.set()
            beside.join()


def test_the_detokenizer_has_a_stream_of_its_own() -> None:
    device = Device(GPU, time.monotonic)
    with device.detokenizing():
        ours = torch.cuda.current_stream()
    assert ours != torch.cuda.current_stream() and ours != torch.cuda.default_stream()
