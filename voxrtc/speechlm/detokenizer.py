"""The interface of detokenizers: frames of audio tokens become sound, streaming."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Repeat: TypeAlias = Callable[[Hashable, Callable[[], Tensor]], tuple[Tensor, bool]]

# What a detokenizer knows of somebody, shared by all streams that sound like him. It has `parts`, tensors of which
# `Detokenizer.voice_in` makes the same elsewhere. None: nobody in particular.
Voice = Any


class Detokenizer(ABC):
    """Frames of audio tokens -> samples, streaming and exact.

    Exact: for every way of cutting a stream into calls, alone or beside others, the samples are those of one call, equal
    in number (`samples_per_group` for each whole group of frames; what is left of a group at the end makes no sound) and in
    value to 1e-4.
    """

    sample_rate: int
    group: int = 1  # frames that only together make sound, where a model gives a codec's codes one by one
    samples_per_group: int
    lookahead: int  # frames that must follow a frame, at most, before its samples can be had
    min_chunk: int  # frames below which a call is not worth its cost
    long_chunk: int = 0  # frames up to which a longer call costs less a frame; 0: nobody knows
    lag: int = 0  # of the frames that were worked on, the latest, whose samples come with later ones

    @property
    def device(self) -> torch.device:
        """Where its weights and states are, which need not be where the language model's are."""
        return torch.device("cpu")

    @abstractmethod
    def new_state(self, seed: int, voice: Voice = None) -> Any:
        """State of a fresh stream; `seed` makes its noise reproducible. `voice` is what `SpeechLM.voice_of` gave."""

    def before(self, voice: Voice) -> int:
        """Frames that stand before a stream's first and are worked on with it, like the last ones of a voice's prompt."""
        return 0

    def voice_in(self, parts: list[Tensor]) -> Voice:
        """A voice of another process, of its `parts` on the host. May be slow."""
        raise NotImplementedError

    def ripe(self, frames: int) -> int:
        """Of a stream's first `frames` frames, those before it included, how many all is there for that work on them needs."""
        return max(0, frames - self.lookahead)

    def record(self, streams: int, repeat: Repeat) -> bool:
        """From now on make calls of a form that a device can record, of up to `streams` at a time; False where there is none.

        `repeat(key, work)` gives what `work()` does, and whether it came of repeating an earlier work of the same key, upon the
        same addresses. It is good until the next time. Called before there is a state.
        """
        return False

    @abstractmethod
    def decode(self, frames: list[Tensor], states: list[Any], final: list[bool]) -> list[Tensor]:
        """New frames [n_i, width] of each stream (n_i may be 0) -> its float samples that are ready, maybe none.

        States advance in place, at the end: a call that raises has moved none. `final` gives out what lookahead held
        back; such a state is used up.
        """
