"""A codec's calls in a form that a device can record: their shapes and addresses hang on two numbers alone.

A pass has n lanes of k frames each. A stream's part lies in a lane, fills it or not, and what is a stream's is told by numbers
in tensors: how many frames came before, come now, and are there in all. Every layer gives as many columns as k frames are,
also where it is to wait for what follows: the first ones then lie before the stream's beginning, and nobody hears them.
What a stream's layers remember is one vector, which is laid in its lane before a pass and taken from there after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from voxrtc.speechlm.detokenizer import Repeat

LONGEST = 32  # frames of a lane; more come in several passes
AT_ONCE = 256  # frames of all lanes: bounds memory
ENDLESS = 1 << 40  # frames of a stream whose end nobody knows


@dataclass
class LaneState:
    """One stream between calls."""

    memory: Tensor  # [width]
    noise: int  # where in a table of noise it begins
    frames: int = 0  # that came
    ended: bool = False


class Lanes:
    """A pass on its way through the layers, which must take their memories in the same order each time."""

    def __init__(self, memory: Tensor, numbers: Tensor, length: int) -> None:
        """`memory` [n, width] of the streams, changed in place; `numbers` [n, 4]: see `InLanes`."""
        self.count, self.length = len(memory), length
        self._memory, self._taken = memory, 0
        self._past, self._new, self._all, self.noise = numbers.unbind(1)

    def remembered(self, *shape: int) -> Tensor:
        """The next layer's memory [n, *shape], to be read and then written."""
        start = self._taken
        self._taken += torch.Size(shape).numel()
        return self._memory[:, start : self._taken].unflatten(1, shape)

    @property
    def all_taken(self) -> bool:
        """Whether every layer had its memory."""
        return self._taken == self._memory.shape[1]

    def latest(self, reach: int, rate: int) -> Tensor:
        """Of `reach` old columns and the new ones behind them, `rate` a frame, which are the stream's latest [n, reach]."""
        return rate * self._new[:, None] + torch.arange(reach, device=self._new.device)

    def columns(self, rate: int, lag: int = 0, before: int = 0) -> Tensor:
        """Which columns of its stream the new ones of each lane are, where they come `lag` later, and so many before them:
        [n, before + rate * length]."""
        first = rate * self._past[:, None] - lag - before
        return first + torch.arange(before + rate * self.length, device=first.device)

    def inside(self, columns: Tensor, rate: int) -> Tensor:
        """Whether there are such columns in the stream."""
        return (columns >= 0) & (columns < rate * self._all[:, None])


# Frames [n * length, …], lane after lane -> samples [n * length * Shape.samples], `Shape.lag` of them late.
Run: TypeAlias = Callable[[Tensor, Lanes], Tensor]


@dataclass(frozen=True)
class Shape:
    """Of a codec that runs in lanes."""

    frame: Tensor  # a frame of nothing
    width: int  # floats that it remembers of a stream
    samples: int  # a frame
    lag: int = 0  # samples by which its sound comes later


@dataclass(frozen=True)
class _Part:
    """Frames of stream i that fit a lane, and whether nothing follows them."""

    i: int
    frames: Tensor
    final: bool


class InLanes:
    """Has a codec `run` on up to `streams` at a time. `repeat` gets each pass as work at fixed addresses, by a key: see
    `Detokenizer.record`."""

    def __init__(self, run: Run, shape: Shape, streams: int, repeat: Repeat) -> None:
        self._run, self._shape, self._repeat, self._most = run, shape, repeat, min(streams, AT_ONCE)
        frame, device = shape.frame, shape.frame.device
        self._memory = torch.zeros(self._most, shape.width, device=device)
        self._numbers = torch.zeros(self._most, 4, dtype=torch.long, device=device)  # frames past, new, in all; noise
        self._frames = frame.new_zeros(AT_ONCE, *frame.shape)
        self._fresh = torch.zeros(shape.width, device=device)
        self._flush = -(-shape.lag // shape.samples)  # frames of nothing that bring the last sound out

    def new_state(self, noise: int = 0) -> LaneState:
        """State of a stream of which nothing has come."""
        return LaneState(self._fresh, noise)

    def decode(self, frames: Sequence[Tensor], states: Sequence[LaneState], final: Sequence[bool]) -> list[Tensor]:
        """New frames [n_i, …] of each stream -> the samples that they complete. Moves the states on, at the end."""
        moved = [replace(state) for state in states]  # if anything fails, nothing has happened
        samples: list[list[Tensor]] = [[self._fresh[:0]] for _ in states]
        for parts in self._passes(frames, final):
            for part, made in zip(parts, self._pass(parts, [moved[part.i] for part in parts]), strict=True):
                samples[part.i].append(made)
        for state, new, last in zip(states, moved, final, strict=True):
            state.memory, state.frames, state.ended = new.memory, new.frames, last
        return [torch.cat(made) for made in samples]

    def _passes(self, frames: Sequence[Tensor], final: Sequence[bool]) -> Iterator[list[_Part]]:
        """What is run together: of each stream what comes next, beside streams whose lanes are as long."""
        parts = [self._parts(i, new, last) for i, (new, last) in enumerate(zip(frames, final, strict=True))]
        for turn in range(max(map(len, parts), default=0)):
            lengths: dict[int, list[_Part]] = {}
            for part in [each[turn] for each in parts if turn < len(each)]:
                lengths.setdefault(self._length(part), []).append(part)
            for length, alike in lengths.items():
                most = min(self._most, AT_ONCE // length)
                yield from (alike[i : i + most] for i in range(0, len(alike), most))

    def _parts(self, i: int, frames: Tensor, final: bool) -> list[_Part]:
        room = LONGEST - self._flush
        cut = [part for part in frames.split(room) if len(part)] or [frames][: int(final and self._flush > 0)]
        return [_Part(i, part, final and number + 1 == len(cut)) for number, part in enumerate(cut)]

    def _length(self, part: _Part) -> int:
        return _filled(len(part.frames) + self._flush * part.final)

    def _pass(self, parts: Sequence[_Part], states: Sequence[LaneState]) -> list[Tensor]:
        length, count = self._length(parts[0]), min(_filled(len(parts)), self._most)
        memory, numbers, frames = self._memory[:count], self._numbers[:count], self._frames[: count * length]
        told = [_told(part, state) for part, state in zip(parts, states, strict=True)]
        numbers.copy_(torch.tensor(told + [(0, 0, 0, 0)] * (count - len(parts))))
        memory[: len(parts)].copy_(torch.stack([state.memory for state in states]))
        for lane, part in zip(frames.unflatten(0, (count, length)), parts, strict=False):
            lane[: len(part.frames)].copy_(part.frames)

        def work() -> Tensor:
            lanes = Lanes(memory, numbers, length)
            made = self._run(frames, lanes)
            assert lanes.all_taken, "a codec's width is what its layers remember"
            return made

        made, _ = self._repeat((count, length), work)
        samples = made.unflatten(0, (count, -1))[: len(parts)].clone()  # they lie where another pass's may
        sounds = [sound[self._ready(part, state)] for part, state, sound in zip(parts, states, samples, strict=True)]
        for part, state, kept in zip(parts, states, memory, strict=False):
            state.memory, state.frames = kept.clone(), state.frames + len(part.frames)
        return sounds

    def _ready(self, part: _Part, state: LaneState) -> slice:
        """Of a lane's samples those that lie in its stream and hang on none of the frames that fill it up."""
        size, lag = self._shape.samples, self._shape.lag
        return slice(max(0, lag - size * state.frames), size * len(part.frames) + lag * part.final)


def _told(part: _Part, state: LaneState) -> tuple[int, int, int, int]:
    """A lane's numbers."""
    new = len(part.frames)
    return state.frames, new, state.frames + new if part.final else ENDLESS, state.noise


def _filled(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()
