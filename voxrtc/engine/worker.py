"""Runs steps on a device: a model, its key-value cache and its tables of per-stream numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from voxrtc.engine.attention import PagedSdpa
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.sampling import SamplingTable
from voxrtc.messages import Sampling
from voxrtc.speechlm.base import Batch, Prompt, SpeechLM


class BrokenStream(Exception):
    """A stream's numbers are no numbers any more."""


@dataclass(frozen=True)
class Task:
    """One stream's part in a step: its next `count` tokens from position `start` on, and a frame after them if `samples`."""

    slot: int
    start: int
    count: int
    samples: bool


@dataclass(frozen=True)
class Chunk:
    """Frames [n, width] of one stream for the detokenizer, with that stream's state."""

    frames: Tensor
    state: Any
    final: bool


class Worker:
    """Executes what the scheduler planned. Holds tensors by slot and knows nothing of listeners.

    Without a `page_size` a page holds a whole stream, which suits a CPU: see `attention`. Memory that is not written to
    is not taken from the machine.
    """

    def __init__(self, model: SpeechLM, slots: int, pages: int | None = None, page_size: int | None = None) -> None:
        self.model, self.slots = model, slots
        page_size = page_size or model.cache.positions
        per_stream = -(-model.cache.positions // page_size)
        self.cache = PagedCache(model.cache, slots, pages or slots * per_stream, page_size)
        self.states = model.new_states(slots)
        self.sampling = SamplingTable(slots)

    def pages_for(self, prompt: Prompt) -> int:
        """Cache pages that a prompt and all its frames may take."""
        return self.cache.pages_for(prompt.length + prompt.max_frames)

    def admit(self, slot: int, prompt: Prompt, sampling: Sampling, seed: int, step: int) -> None:
        """Put a prompt into `slot`, with room for all it may become. `step` frames of its stream were sampled before."""
        self.model.admit(self.states, slot, prompt)
        self.cache.reserve(slot, prompt.length + prompt.max_frames)
        if prompt.prefix:
            self.cache.fill(slot, prompt.prefix.keys, prompt.prefix.values)
        self.sampling.set(slot, sampling, self.model.defaults, seed, step)

    def release(self, slot: int, failed: bool = False) -> None:
        """Take a slot's pages back."""
        self.cache.free(slot, scrub=failed)

    @torch.inference_mode()
    def step(self, tasks: list[Task]) -> list[tuple[Tensor, bool] | Exception | None]:
        """Run one batch. Each task gives (frame [width], whether it was the last), None without a frame, or its error.

        An error of the whole batch is laid at the door of the streams that fail again alone: a step writes only its own
        positions and moves the tables on at its very end, so running it twice does no harm.
        """
        try:
            return self._run(tasks)
        except Exception as error:  # noqa: BLE001  whatever a model raises, other streams go on
            if len(tasks) == 1:
                return [error]
            return [self.step([task])[0] for task in tasks]

    @torch.inference_mode()
    def detokenize(self, chunks: list[Chunk]) -> list[Tensor | Exception]:
        """Samples of each chunk, or its error. Runs on the detokenizer's thread, beside `step`."""
        decode = self.model.detokenizer.decode
        try:
            samples = decode([c.frames for c in chunks], [c.state for c in chunks], [c.final for c in chunks])
        except Exception as error:  # noqa: BLE001
            if len(chunks) == 1:
                return [error]
            return [self.detokenize([chunk])[0] for chunk in chunks]
        return [s if bool(s.isfinite().all()) else BrokenStream("the detokenizer gave no numbers") for s in samples]

    def _run(self, tasks: list[Task]) -> list[tuple[Tensor, bool] | Exception | None]:
        for task in tasks:
            self.cache.grow(task.slot, task.start + task.count)
        slots, counts = [task.slot for task in tasks], [task.count for task in tasks]
        attention = PagedSdpa(self.cache, slots, [task.start for task in tasks], counts)
        hidden = self.model.forward(Batch(torch.tensor(slots), tuple(counts), attention.positions, attention), self.states)
        healthy = hidden.isfinite().all(-1).tolist()
        results: list[tuple[Tensor, bool] | Exception | None] = [
            None if ok else BrokenStream("the model gave no numbers") for ok in healthy
        ]
        rows = [i for i, task in enumerate(tasks) if task.samples and healthy[i]]
        if rows:
            chosen = [slots[i] for i in rows]
            sampled = self.model.sample(hidden[rows], torch.tensor(chosen), self.states, self.sampling.sampler(chosen))
            self.sampling.advance(chosen)
            for i, codes, last in zip(rows, sampled.codes, sampled.last.tolist(), strict=True):
                results[i] = (codes, last)
        return results
