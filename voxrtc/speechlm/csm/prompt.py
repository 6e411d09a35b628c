"""CSM's prompts: turns of a conversation, each a text and what was said of it, and a text to be said.

A text is `[speaker]text` between the tokenizer's marks of beginning and end; what was said are frames, and one of zeros at the
end (`csm/generator.py` of Sesame's repository; the same in transformers' `CsmProcessor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from voxrtc.speechlm.base import Turn
from voxrtc.speechlm.weights import WeightsError, read_tokenizer

BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"


@dataclass(frozen=True)
class Written:
    """A prompt, position by position."""

    text: Tensor  # [n] token ids; -1 where there is a frame
    codes: Tensor  # [n, books]; 0 where there is text

    def __len__(self) -> int:
        return len(self.text)


class Writer:
    """Writes prompts with a checkpoint's tokenizer."""

    def __init__(self, tokenizer: Tokenizer, books: int) -> None:
        self._tokenizer, self._books = tokenizer, books
        # A listener's text is text, whatever it looks like: nobody may write the prompt's own marks into it.
        tokenizer.encode_special_tokens = True
        self._begin, self._end = (tokenizer.token_to_id(mark) for mark in (BEGIN, END))

    @classmethod
    def load(cls, folder: Path, books: int, texts: int) -> Writer:
        """With `tokenizer.json` of a folder, for a model of so many text tokens. Raises `WeightsError`."""
        path = folder / "tokenizer.json"
        tokenizer = read_tokenizer(path)
        marks = [tokenizer.token_to_id(mark) for mark in (BEGIN, END)]
        if None in marks or tokenizer.get_vocab_size() > texts:
            raise WeightsError(f"{path} is not the tokenizer of this model. Fetch it again.")
        return cls(tokenizer, books)

    def count(self, text: str) -> int:
        """Tokens of a text by itself."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def ids(self, text: str, speaker: str) -> list[int]:
        """Tokens of a text to be said."""
        return [self._begin, *self._tokenizer.encode(f"[{speaker}]{text}", add_special_tokens=False).ids, self._end]

    def said(self, turn: Turn, speaker: str) -> Written:
        """A turn with its sound. It may have ended with the frame of zeros or at a limit; here it ends with that frame."""
        text, frames = self.text(turn.text, speaker), turn.frames.cpu()
        if len(frames) and not frames[-1].any():
            frames = frames[:-1]
        frames = torch.cat([frames, frames.new_zeros(1, self._books)])
        return join([text, Written(torch.full((len(frames),), -1), frames)])

    def text(self, text: str, speaker: str) -> Written:
        """A turn that is still to be spoken."""
        ids = torch.tensor(self.ids(text, speaker))
        return Written(ids, torch.zeros(len(ids), self._books, dtype=torch.long))


def join(parts: Sequence[Written]) -> Written:
    """One after the other."""
    return Written(torch.cat([part.text for part in parts]), torch.cat([part.codes for part in parts]))
