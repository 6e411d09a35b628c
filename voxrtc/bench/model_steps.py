"""What a model's own steps take, with nothing around them: the bound on the streams that any engine could sustain."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from voxrtc.engine.attention import PagedSdpa
from voxrtc.engine.worker import Chunk, Task, Worker
from voxrtc.messages import Sampling
from voxrtc.settings import Settings
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import Batch, SpeechLM

BATCHES = (1, 4, 8, 16, 24, 32, 48, 64)
STEPS, CALLS = 60, 8  # timed, of each size; the median counts
CHUNK = 16  # frames of a call; larger ones are hardly cheaper
TEXT = "The small boat drifted slowly past the island, and the fishermen on board watched the sun come up behind the mountains."


@dataclass(frozen=True)
class Steps:
    """A batch of streams: seconds of computing for a second of everyone's sound, on one thread."""

    streams: int
    model: float  # forward and sample
    detokenizer: float

    @property
    def bound(self) -> float:
        """Streams at a time when one core does both: 1 / real-time factor."""
        return self.streams / (self.model + self.detokenizer)

    @property
    def bound_side_by_side(self) -> float:
        """Streams at a time when the detokenizer has a core of its own."""
        return self.streams / max(self.model, self.detokenizer)


def model_steps() -> Steps:
    """Steps at the batch with the highest bound."""
    torch.set_num_threads(1)  # as the engine
    settings = Settings()
    _, model = registry.load(settings.models, settings.model)
    return max((_steps(model, streams) for streams in BATCHES), key=lambda steps: steps.bound)


@torch.inference_mode()
def _steps(model: SpeechLM, streams: int) -> Steps:
    worker, prompt = Worker(model, streams), model.preprocess(TEXT, model.voices[0])
    for slot in range(streams):
        worker.admit(slot, prompt, Sampling(), seed=slot, step=0)
        worker.step([Task(slot, 0, prompt.length, samples=True)])
    slots = list(range(streams))
    rows, counts = torch.tensor(slots), (1,) * streams
    frames: list[Tensor] = []

    def step() -> None:
        start = prompt.length + len(frames)
        for slot in slots:
            worker.cache.grow(slot, start + 1)
        attention = PagedSdpa(worker.cache, slots, [start] * streams, list(counts))
        hidden = model.forward(Batch(rows, counts, attention.positions, attention), worker.states)
        frames.append(model.sample(hidden, rows, worker.states, worker.sampling.sampler(slots)).codes)

    seconds = _median(step, STEPS)
    states = [model.detokenizer.new_state(slot) for slot in slots]
    codes = torch.stack(frames[-CHUNK:])
    chunks = [Chunk(codes[:, slot], states[slot], final=False) for slot in slots]
    call = _median(lambda: worker.detokenize(chunks), CALLS)
    return Steps(streams, seconds * model.frame_rate, call * model.frame_rate / CHUNK)


def _median(work: Callable[[], object], times: int) -> float:
    """Seconds of one, after a few to warm up."""
    taken = []
    for _ in range(times + 4):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[4:])
