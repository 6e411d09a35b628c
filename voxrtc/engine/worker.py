"""Runs steps on a device: a model, its key-value cache and its tables of per-stream numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from voxrtc.engine.attention import PagedAttention
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.sampling import SamplingTable
from voxrtc.messages import Sampling
from voxrtc.speechlm.base import Batch, Frames, Prompt, SpeechLM

PAGE_SIZE = 128  # positions; smaller pages cost a few percent of a step, larger ones hold more memory than they use


class BrokenStream(Exception):
    """A stream's numbers are no numbers any more."""


Result = tuple[Tensor, bool] | Exception | None


@dataclass(frozen=True)
class Task:
    """One stream's part in a step: its next `count` tokens from position `start` on, and a frame after them if `samples`."""

    slot: int
    start: int
    count: int
    samples: bool


@dataclass(frozen=True)
class Step:
    """A step under way. What it gave is read with `results`, which waits for it."""

    parts: list[Exception | Step | None]  # by task: why it failed, or the step that it got alone, or None: in this one
    healthy: Tensor | None = None  # [tasks] whether the model gave numbers
    frames: Frames | None = None  # of the tasks `sampling`
    sampling: list[int] = field(default_factory=list)
    seconds: tuple[float, float] = (0.0, 0.0)  # that the model took to run forward and to sample

    def results(self) -> list[Result]:
        """For each task (frame [width], whether it was the last), None without a frame, or its error."""
        results: list[Result] = [part.results()[0] if isinstance(part, Step) else part for part in self.parts]
        if self.frames:
            for i, codes, last in zip(self.sampling, self.frames.codes, self.frames.last.tolist(), strict=True):
                results[i] = (codes, last)
        for i, healthy in enumerate([] if self.healthy is None else self.healthy.tolist()):
            if not healthy:
                results[i] = BrokenStream("the model gave no numbers")
        return results


@dataclass(frozen=True)
class Chunk:
    """Frames [n, width] of one stream for the detokenizer, with that stream's state."""

    frames: Tensor
    state: Any
    final: bool


class Worker:
    """Executes what the scheduler planned. Holds tensors by slot and knows nothing of listeners.

    `lag` says how many steps may be under way before the results of the first are looked at. A device that computes beside
    the host is to have its next step before it is done with one; a CPU computes in the call, so nothing is gained.

    Without a number of `pages` there are half of what all slots would need at their longest, since hardly any stream ever
    gets there; a stream that gets none gives way to others for a while (see `scheduler`).
    """

    lag = 0

    def __init__(
        self,
        model: SpeechLM,
        slots: int,
        pages: int | None = None,
        page_size: int = PAGE_SIZE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.slots, self.clock = model, slots, clock
        per_stream = -(-model.cache.positions // page_size)
        self.cache = PagedCache(model.cache, slots, pages or max(per_stream, slots * per_stream // 2), page_size)
        self.states = model.new_states(slots)
        self.sampling = SamplingTable(slots)

    def most_pages(self, prompt: Prompt) -> int:
        """Cache pages that a prompt and all its frames may take."""
        return self.cache.pages_for(prompt.length + prompt.max_frames)

    def admit(self, slot: int, prompt: Prompt, sampling: Sampling, seed: int, step: int) -> None:
        """Put a prompt into `slot`. `step` frames of its stream were sampled before."""
        self.model.admit(self.states, slot, prompt)
        if prompt.prefix:
            self.cache.fill(slot, prompt.prefix.keys, prompt.prefix.values)
        self.sampling.set(slot, sampling, self.model.defaults, seed, step)

    def release(self, slot: int, failed: bool = False) -> None:
        """Take a slot's pages back."""
        self.cache.free(slot, scrub=failed)

    @torch.inference_mode()
    def launch(self, tasks: list[Task]) -> Step:
        """Run one batch, or have the device begin with it: nothing here waits for its results.

        An error of the whole batch is laid at the door of the streams that fail again alone: a step writes only its own
        positions and moves the tables on at its very end, so running it twice does no harm.
        """
        try:
            return self._run(tasks)
        except Exception as error:  # noqa: BLE001  whatever a model raises, other streams go on
            return Step([error]) if len(tasks) == 1 else Step([self.launch([task]) for task in tasks])

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

    def _run(self, tasks: list[Task]) -> Step:
        for task in tasks:
            self.cache.grow(task.slot, task.start + task.count)
        slots, counts = [task.slot for task in tasks], [task.count for task in tasks]
        attention = PagedAttention(self.cache, slots, [task.start for task in tasks], counts)
        rows = torch.from_numpy(np.array(slots))
        began = self.clock()
        hidden = self.model.forward(Batch(rows, tuple(counts), attention.positions, attention), self.states)
        ran = self.clock()
        sampling = [i for i, task in enumerate(tasks) if task.samples]
        frames = None
        if sampling:
            sampler = self.sampling.sampler([slots[i] for i in sampling])
            chosen = hidden if len(sampling) == len(tasks) else hidden[torch.from_numpy(np.array(sampling))]
            frames = self.model.sample(chosen, sampler.rows, self.states, sampler)
            sampler.advance()
        seconds = ran - began, self.clock() - ran
        return Step([None] * len(tasks), hidden.isfinite().all(-1), frames, sampling, seconds)
