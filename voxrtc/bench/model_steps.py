"""What a model's own steps take, with nothing around them: the bound on the streams that any engine could sustain."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from voxrtc.engine.sound_stage import Chunk
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages.engine import Sampling
from voxrtc.settings import Settings
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import SpeechLM, Utterance

BATCHES = (1, 4, 8, 16, 24, 32, 48, 64)
STEPS, CALLS = 64, 12  # timed, of each size; the median counts
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


def _steps(model: SpeechLM, streams: int) -> Steps:
    worker, prompt = Worker(model, streams), model.preprocess(Utterance(TEXT))
    for slot in range(streams):
        worker.admit(slot, prompt, Sampling(), seed=slot, step=0)
        worker.launch([Task(slot, prompt.known, prompt.length - prompt.known, samples=True)])
    frames: list[Tensor] = []
    seconds: list[float] = []  # without what the worker does around the model
    for position in range(prompt.length, prompt.length + STEPS):
        step = worker.launch([Task(slot, position, 1, samples=True) for slot in range(streams)])
        frames.append(torch.stack([result[0] for result in step.results() if isinstance(result, tuple)]))
        seconds.append(sum(step.seconds))
    states = [model.detokenizer.new_state(slot) for slot in range(streams)]
    chunks = [Chunk(codes, state, final=False) for codes, state in zip(torch.stack(frames[-CHUNK:], 1), states, strict=True)]
    calls = [_seconds(lambda: worker.sound.decode(chunks)) for _ in range(CALLS)]
    model_second = statistics.median(seconds) * model.frame_rate
    return Steps(streams, model_second, statistics.median(calls) * model.frame_rate / CHUNK)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
