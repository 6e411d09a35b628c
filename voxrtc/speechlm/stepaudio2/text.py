"""Step-Audio 2's tokens: Qwen2's, marks of its own, and a token for each code of speech. All are in `tokenizer.json`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from voxrtc.speechlm.base import InvalidRequest
from voxrtc.speechlm.weights import WeightsError, read_tokenizer

CODES = 6561  # of speech; one token more fills up where text goes on when speech has ended
NAMES = {
    "begin": "<|BOT|>", "end": "<|EOT|>", "hear": "<audio_start>", "heard": "<audio_patch>", "hear_end": "<audio_end>",
    "speak": "<tts_start>", "speak_end": "<tts_end>", "no_text": "<tts_pad>", "first_code": "<audio_0>",
    "no_code": "<audio_6561>",
}  # fmt: skip


@dataclass(frozen=True)
class Marks:
    """Ids of what is no text."""

    begin: int  # of a turn
    end: int
    hear: int  # before what was heard
    heard: int  # in place of each vector of it
    hear_end: int
    speak: int  # before words and codes in turn
    speak_end: int
    no_text: int  # where speech goes on when its text has ended
    first_code: int
    no_code: int

    def is_code(self, id: int) -> bool:
        """Whether a token is sound."""
        return self.first_code <= id < self.first_code + CODES


class Writer:
    """Reads and writes text with a checkpoint's tokenizer."""

    def __init__(self, tokenizer: Tokenizer, marks: Marks) -> None:
        self._tokenizer, self.marks = tokenizer, marks
        # A listener's text is text, whatever it looks like: nobody may write the prompt's own marks into it.
        tokenizer.encode_special_tokens = True
        special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._no_text = special | {getattr(marks, field.name) for field in fields(marks)}

    @classmethod
    def load(cls, folder: Path, vocabulary: int) -> Writer:
        """With `tokenizer.json` of a folder, for a model of so many tokens. Raises `WeightsError`."""
        path = folder / "tokenizer.json"
        tokenizer = read_tokenizer(path)
        ids = {field: id for field, name in NAMES.items() if (id := tokenizer.token_to_id(name)) is not None}
        if lacking := [name for field, name in NAMES.items() if field not in ids]:
            raise WeightsError(f"{path} is not the tokenizer of Step-Audio 2: it lacks {', '.join(lacking)}.")
        marks = Marks(**ids)
        if marks.no_code != marks.first_code + CODES or tokenizer.get_vocab_size() > vocabulary:
            raise WeightsError(f"{path} does not fit the model, which has {vocabulary} tokens. Fetch it again.")
        return cls(tokenizer, marks)

    def is_text(self, id: int) -> bool:
        """Whether a token is words."""
        return id < self.marks.first_code and id not in self._no_text and self._tokenizer.id_to_token(id) is not None

    def sayable(self) -> Tensor:
        """Ids of the tokens that a reply may have, in order: words, codes, what fills up, and what ends it.

        The reference samples from all. But what is neither words nor sound, nor an end, has no meaning in a reply.
        """
        marks = self.marks
        words = [id for id in range(marks.first_code) if self.is_text(id) or id in (marks.end, marks.speak_end, marks.no_text)]
        return torch.tensor([*words, *range(marks.first_code, marks.no_code + 1)])

    def ids(self, text: str) -> list[int]:
        """Of a text by itself. Raises `InvalidRequest` where it holds one of the model's marks."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not all(map(self.is_text, ids)):
            raise InvalidRequest(f"“{text[:40]}” names a token that is the model's own. Please write it differently.")
        return ids

    def written(self, ids: list[int]) -> str:
        """The words among a reply's tokens so far; of a character that is not whole yet nothing."""
        text = self._tokenizer.decode([id for id in ids if self.is_text(id)])
        return text.rstrip("\N{REPLACEMENT CHARACTER}")
