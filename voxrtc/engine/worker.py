"""Runs steps on a device: a model, its key-value cache and its tables of per-stream numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from voxrtc.engine.attention import Backend, Layout, choose
from voxrtc.engine.device import Device, Mark
from voxrtc.engine.graphs import Recorder, graphs_for
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.memory import half_of_the_longest, held
from voxrtc.engine.outcome import Here, Outcome, Sent
from voxrtc.engine.sampling import SamplingTable
from voxrtc.engine.sound_stage import BrokenStream, LocalStage, SoundStage
from voxrtc.engine.staging import Staging
from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.base import Batch, Frames, Prompt, SpeechLM

T = TypeVar("T")

PAGE_SIZE = 128  # positions; smaller pages cost a few percent of a step, larger ones hold more memory than they use


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
    outcome: Outcome | None = None
    sampling: list[int] = field(default_factory=list)  # the tasks that get a frame
    marks: tuple[Mark, Mark, Mark] | None = None  # before the model ran forward, between that and sampling, and after it
    before: Mark | None = None  # when the step before ended
    recorded: bool = False  # it was repeated from CUDA graphs

    def results(self) -> list[Result]:
        """For each task (frame [width], whether it was the last), None without a frame, or its error."""
        results: list[Result] = [part.results()[0] if isinstance(part, Step) else part for part in self.parts]
        if self.outcome is None:
            return results
        healthy, frames, last = self.outcome.read()
        for i, frame, end in zip(self.sampling, frames, last, strict=True):
            results[i] = (frame, end)
        for i, well in enumerate(healthy):
            if not well:
                results[i] = BrokenStream("the model gave no numbers")
        return results

    @property
    def seconds(self) -> tuple[float, float]:
        """What the model took to run forward and to sample. After `results`."""
        if self.marks is None:
            return 0.0, 0.0
        began, ran, sampled = self.marks
        return ran - began, sampled - ran

    @property
    def gap(self) -> float | None:
        """Seconds between the step before and this one, in which the device had none. After `results`."""
        return self.marks[0] - self.before if self.marks and self.before is not None else None


class Worker:
    """Executes what the scheduler planned. Holds tensors by slot and knows nothing of listeners.

    `lag` says how many steps may be under way before the results of the first are looked at. A device that computes beside
    the host is to have its next step before it is done with one; a CPU computes in the call, so nothing is gained.

    Without a number of `pages` there are half of what all slots would need at their longest, since hardly any stream ever
    gets there; a stream that gets none gives way to others for a while (see `scheduler`).

    `sound` is the stage that makes samples of what the steps gave, beside them; by default the model's own detokenizer.
    """

    def __init__(
        self,
        model: SpeechLM,
        slots: int,
        pages: int | None = None,
        page_size: int = PAGE_SIZE,
        clock: Callable[[], float] = time.monotonic,
        backend: Callable[[PagedCache, int], Backend] = choose,
        recorder: Recorder | None = None,
        sound: SoundStage | None = None,
    ) -> None:
        self.model, self.slots = model, slots
        self.device, self.sound = Device(model.device, clock), sound or LocalStage(model.detokenizer, slots, recorder)
        self.lag, spare = (1, 1) if self.device.beside else (0, 0)
        pages = pages or half_of_the_longest(model.cache, slots, page_size)
        self.cache = PagedCache(model.cache, slots, pages, page_size, model.device, model.dtype, scratch=spare > 0)
        self.attention = backend(self.cache, model.cache.heads)
        self.states = model.new_states(slots + spare)
        self.sampling = SamplingTable(slots, model.device)
        tokens = self.cache.table.numel() * page_size  # more than any step has
        self.graphs = graphs_for(model.device, recorder) if self.attention.fixed else None
        self._ended: Mark | None = None  # the step before
        self._staging = Staging(3 * (slots + 1) + 2 * tokens, 5, torch.long, model.device) if spare else None

    @property
    def memory(self) -> float:
        """GB that model, cache and detokenizer hold."""
        return held(self.model.device) + self.sound.memory

    def check(self) -> None:
        """After a failure that the device may not have survived: raises if so."""
        self.device.check()
        self.sound.check()

    def most_pages(self, prompt: Prompt) -> int:
        """Cache pages that a prompt and all its frames may take."""
        return self.cache.pages_for(prompt.length + prompt.max_frames)

    def admit(self, slot: int, prompt: Prompt, sampling: Sampling, seed: int, step: int) -> None:
        """Put a prompt into `slot`. `step` frames of its stream were sampled before."""
        self.model.admit(self.states, slot, prompt)
        if prompt.prefix:
            self.cache.fill(slot, prompt.prefix.keys, prompt.prefix.values)
        self.sampling.set(slot, sampling, self.model.defaults, seed, step)

    def grow(self, slot: int, prompt: Prompt) -> None:
        """Put what became of a slot's prompt in its place, for the steps that begin from now on."""
        self.model.grow(self.states, slot, prompt)

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
            with self.device.chosen():
                return self._run(tasks)
        except Exception as error:  # noqa: BLE001  whatever a model raises, other streams go on
            return Step([error]) if len(tasks) == 1 else Step([self.launch([task]) for task in tasks])

    def _run(self, tasks: list[Task]) -> Step:
        for task in tasks:
            self.cache.grow(task.slot, task.start + task.count)
        layout, sampling = self._layout(tasks), [i for i, task in enumerate(tasks) if task.samples]
        attention, filled = self.attention.plan(layout), len(layout.slots) - len(tasks)
        frames_only = layout.decode_only and len(sampling) == len(tasks)
        # Sampling is filled up with the first stream once more, which comes to the same; scratch has no tables to write to.
        slots, positions, rows, ends, asked = self._send(layout, sampling + sampling[:1] * (filled if frames_only else 0))
        batch = Batch(slots, layout.counts, positions, rows, ends, asked, frames_only, attention)
        began, before = self.device.mark(), self._ended
        form = len(slots), self.attention.form(layout)
        whole, recorded = self._do(frames_only, ("forward", *form), lambda: self.model.forward(batch, self.states))
        hidden, frames, ran = whole[: len(tasks)], None, self.device.mark()
        if sampling:
            every = len(sampling) == len(tasks) and not self.attention.fixed  # else one that is filled up is done the same way
            of = [tasks[i].slot for i in sampling]
            manner = self.sampling.manner(of)

            def sample() -> Frames:
                sampler = self.sampling.sampler(of, slots if every else slots[asked])
                sampled = self.model.sample(whole if every else whole[asked], sampler.rows, self.states, sampler)
                sampler.advance()
                return sampled

            # only what a recording left lies where a recording can find it
            frames, recorded = self._do(recorded, ("sample", *form, *manner), sample)
            frames = Frames(frames.codes[: len(sampling)], frames.last[: len(sampling)])
        self._ended = self.device.mark()
        healthy = hidden.isfinite().all(-1)
        outcome = Sent(healthy, frames) if self.device.beside else Here(healthy, frames)
        return Step([None] * len(tasks), outcome, sampling, (began, ran, self._ended), before, recorded)

    def _do(self, fixed: bool, key: tuple[Hashable, ...], work: Callable[[], T]) -> tuple[T, bool]:
        """Work, from a recording if there can be one; and whether it was."""
        return self.graphs.run(key, work) if self.graphs and fixed else (work(), False)

    def _layout(self, tasks: list[Task]) -> Layout:
        """The step's tokens; a decode step's with those of as many more streams as the attention wants."""
        slots, starts = [task.slot for task in tasks], [task.start for task in tasks]
        counts = tuple(task.count for task in tasks)
        if (more := self.attention.width(len(tasks)) - len(tasks)) and sum(counts) == len(counts):
            assert (scratch := self.cache.scratch) is not None
            slots, starts, counts = slots + [scratch] * more, starts + [0] * more, counts + (1,) * more
        return Layout(slots, starts, counts)

    def _send(self, layout: Layout, sampling: list[int]) -> list[Tensor]:
        numbers = (layout.slots, layout.positions, layout.rows, layout.ends, np.array(sampling, dtype=np.int64))
        return self._staging.send(*numbers) if self._staging else [torch.from_numpy(part) for part in numbers]
