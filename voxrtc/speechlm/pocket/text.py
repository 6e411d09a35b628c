"""Text for Pocket-TTS: written as its training texts were, cut into pieces of at most 50 tokens, nothing dropped.

The rules and their order are those of the `pocket-tts` package (4.0.1, `models/text_chunking.py`). Unlike it we cut sentences
only where white space follows, so “e.g.” and “U.S.” stay whole, and cut what has no punctuation between words, so that
no piece is longer than the model can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from voxrtc.speechlm import weights
from voxrtc.speechlm.base import InvalidRequest
from voxrtc.speechlm.pocket.config import TextRules
from voxrtc.speechlm.pocket.released import BORROWED
from voxrtc.speechlm.sentences import pack
from voxrtc.speechlm.weights import WeightsError

MAX_TOKENS = 50

_CLOSERS = "\"'”’)]»"
_ENDS, _PAUSES, _DASHES = ".!?…", ",;:", "-–—"
_SENTENCES = re.compile(rf"(?<=[{_ENDS}])\s+|(?<=[{_ENDS}][{re.escape(_CLOSERS)}])\s+")
_CLAUSES = re.compile(rf"(?<=[{_PAUSES}])\s+")
_WORDS = re.compile(r"\s+")
_LONGEST_WORD = 12  # characters of an endless word: with a byte a token still less than a piece
_CUTS: tuple[Callable[[str], list[str]], ...] = (
    _SENTENCES.split,
    _CLAUSES.split,
    _WORDS.split,
    lambda word: [word[i : i + _LONGEST_WORD] for i in range(0, len(word), _LONGEST_WORD)],
)


class Tokenizer(Protocol):
    """Text -> ids."""

    def __call__(self, text: str) -> list[int]: ...


def read_tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    """`tokenizer.json` or `tokenizer.model`, of `folder` or of the one that it borrows from. Raises `WeightsError`."""
    places = [folder, folder / BORROWED.get(folder.name, ".")]
    kinds = [place / kind for place in places for kind in ("tokenizer.json", "tokenizer.model")]
    file = next((path for path in kinds if path.exists()), None)
    if file is None:
        raise WeightsError(f"{kinds[-2]} is missing, and so is {kinds[-1].name}. Check the model's folder.")
    if file.suffix == ".json":
        reader = weights.read_tokenizer(file)
        size, tokenizer = reader.get_vocab_size(), lambda text: reader.encode(text).ids
    else:
        from sentencepiece import SentencePieceProcessor

        pieces = SentencePieceProcessor(str(file))
        size, tokenizer = pieces.vocab_size(), pieces.encode
    if size != vocabulary:
        raise WeightsError(f"{file} knows {size} tokens, the model {vocabulary}.")
    return tokenizer


class Writer:
    """Texts as one checkpoint wants them."""

    def __init__(self, rules: TextRules, tokenizer: Tokenizer) -> None:
        self.rules, self.tokenizer = rules, tokenizer
        self._replace = str.maketrans(dict(rules.replace))

    def split(self, text: str) -> list[str]:
        """Pieces of a text of any length, in order. Raises `InvalidRequest` where there is nothing to say."""
        clean = self.clean(text)
        if not any(map(str.isalnum, clean)):
            raise InvalidRequest("There is nothing to say in this text. Please enter some words.")
        return pack(self._fitting(clean, 0), self._fits)

    def clean(self, text: str) -> str:
        """On one line, with the characters that the model knows."""
        text = " ".join(text.split())
        if self.rules.replace:
            text = " ".join(text.translate(self._replace).split())
            # A quotation's end and the comma behind it would be two pauses once the quotation mark is gone.
            text = re.sub(rf"([{_ENDS}])\s*[{_PAUSES}]", r"\1", text)
        return text.replace(";", ",") if self.rules.remove_semicolons else text

    def ids(self, piece: str) -> list[int]:
        """The tokens of a piece, with the capital, the full stop and the spaces that a sentence should have."""
        if self.rules.capitalize:
            piece = piece[0].upper() + piece[1:]
        if self.rules.end_with_punctuation:
            piece = _ended(piece)
        if self.rules.pad_short and len(piece.split()) < 5:
            piece = " " * 8 + piece
        return self.tokenizer(piece)

    def _fits(self, text: str) -> bool:
        return len(self.ids(text)) <= MAX_TOKENS

    def _fitting(self, text: str, level: int) -> Iterator[str]:
        """Sentences; of what is too long, clauses; of what is still too long, words; of a word, parts."""
        for part in filter(None, _CUTS[level](text)):
            if self._fits(part) or level + 1 == len(_CUTS):
                yield part
            else:
                yield from self._fitting(part, level + 1)


def _ended(text: str) -> str:
    """With a mark that ends a sentence: models swallow or repeat the last word without."""
    core = text.rstrip(_CLOSERS + " ")
    closers = text[len(core) :].strip()
    if not core or core[-1] in _ENDS:
        return text
    if core[-1] in _PAUSES + _DASHES:
        return core.rstrip(_PAUSES + _DASHES + " ") + "." + closers
    return text + "."
