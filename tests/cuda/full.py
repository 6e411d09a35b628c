"""Models at their full size with random weights, on the GPU and in bfloat16. Their shapes are those that FlashInfer has kernels
for, which the tiny ones' are not. Each is made once and kept, as making it takes longer than what is tested."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from voxrtc.bench import random_engine
from voxrtc.cards import read_card
from voxrtc.engine.graphs import Recorder, Recording
from voxrtc.engine.worker import Step, Task, Worker
from voxrtc.messages.engine import Sampling
from voxrtc.settings import Settings
from voxrtc.speechlm.base import Placement, SpeechLM, Utterance

GPU = torch.device("cuda", 0)
TEXT = "international considerations notwithstanding altogether " * 4
BYTES = 3  # a parameter: its weight in 16 bits, and room to work
FULL = tuple(random_engine.MODELS)


@cache
def full(name: str, device: torch.device = GPU) -> SpeechLM:
    """One of `FULL`. Skips where the GPU is too small for it."""
    settings = Settings(model=name)
    wanted = BYTES * read_card(settings.models, name).info.parameters
    if device == GPU and (free := torch.cuda.mem_get_info(GPU)[0]) < wanted:
        pytest.skip(f"{name} wants {wanted / 1e9:.0f} GB, {free / 1e9:.0f} are free")
    return random_engine.read(settings, Placement(device, torch.bfloat16))[1]


def refuse(work: object) -> Recording:
    """Nothing is recorded, and all else is as if it were."""
    raise RuntimeError("not this time")


class Row:
    """So many streams that decode, the next step begun before the last is read, as the engine does."""

    def __init__(self, model: SpeechLM, streams: int, recorder: Recorder | None) -> None:
        self.worker = Worker(model, streams, recorder=recorder)
        prompt = model.preprocess(Utterance(TEXT))
        self._position, left = prompt.length, prompt.length - prompt.known
        for slot in range(streams):
            self.worker.admit(slot, prompt, Sampling(), seed=slot, step=0)
            self.worker.launch([Task(slot, prompt.known, left, samples=True)]).results()

    def run(self, steps: int) -> list[Step]:
        """That are done."""
        done: list[Step] = []
        for _ in range(steps):
            slots = range(self.worker.slots)
            done.append(self.worker.launch([Task(slot, self._position, 1, samples=True) for slot in slots]))
            self._position += 1
            if len(done) > 1:
                done[-2].results()
        done[-1].results()
        return done
