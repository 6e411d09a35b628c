"""Step-Audio 2's prompts: turns of a conversation, and the beginning of a spoken answer (`stepaudio2.py` of its repository).

A turn is `<|BOT|>role`, a line's end, what was said, and `<|EOT|>`. What a person said are the vectors of what was heard of it,
and what the model said are its words and codes as they were sampled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from voxrtc.speechlm.base import Said, TooLong
from voxrtc.speechlm.stepaudio2.hearing import Hearing
from voxrtc.speechlm.stepaudio2.text import Writer

ROLES = {"system": "system", "user": "human", "assistant": "assistant"}


@dataclass(frozen=True)
class Written:
    """A prompt, position by position."""

    ids: Tensor  # [length] tokens
    vectors: Tensor  # [m, dim] of what was heard, in place of the m tokens `Marks.heard`


@dataclass(frozen=True)
class Part:
    """The same of a turn."""

    ids: list[int]
    vectors: tuple[Tensor, ...] = ()


class Prompter:
    """Writes prompts of so many positions at most. `nothing` [0, dim] is what was heard of nothing."""

    def __init__(self, writer: Writer, most: int, nothing: Tensor) -> None:
        self._writer, self._most, self._nothing = writer, most, nothing

    def answer(self, conversation: tuple[Said, ...]) -> Written:
        """A conversation that the model is to go on with. Raises `InvalidRequest`, `TooLong`."""
        parts = [self._turn(said) for said in conversation if not _nothing(said)] + [self._opening()]
        length = sum(len(part.ids) for part in parts)
        if length > self._most:
            raise TooLong(f"This takes {length} positions, and the model has {self._most}. Please say less at a time.")
        vectors = torch.cat([self._nothing, *(vector for part in parts for vector in part.vectors)])
        return Written(torch.tensor([id for part in parts for id in part.ids]), vectors)

    def _opening(self) -> Part:
        marks = self._writer.marks
        return Part([marks.begin, *self._writer.ids(f"{ROLES['assistant']}\n"), marks.speak])

    def _turn(self, said: Said) -> Part:
        marks, head = self._writer.marks, f"{ROLES[said.role]}\n"
        if said.sound is not None:
            heard: Hearing = said.sound
            assert heard.complete, "a recording that is still being heard"
            inner = [id for part in heard.vectors for id in (marks.hear, *[marks.heard] * len(part), marks.hear_end)]
            return Part([marks.begin, *self._writer.ids(head), *inner, marks.end], tuple(heard.vectors))
        if said.frames is not None:
            spoken = [id for id in said.frames.flatten().tolist() if id not in (marks.end, marks.speak_end)]
            return Part([marks.begin, *self._writer.ids(head), marks.speak, *spoken, marks.speak_end, marks.end])
        return Part([marks.begin, *self._writer.ids(head + said.text), marks.end])


def _nothing(said: Said) -> bool:
    """An answer of which not a word was heard."""
    return said.role == "assistant" and not said.text and (said.frames is None or not len(said.frames))
