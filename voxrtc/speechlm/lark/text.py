"""Text of any length -> pieces that Lark can speak -> phoneme ids, by hibari's lexicon and rules.

A piece is one sentence, as the model was taught; a sentence too long for it is cut where a speaker would breathe.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from voxrtc.speechlm.lark.speakable import speakable

PHONEMES = 178  # ids
MAX_IDS = 180  # of a piece: about 11 s of speech, and at 3 frames a phoneme, the most ever heard, 13.5 s

SENTENCE_END = re.compile(r"(?<=[.!?])[)']*\s+(?=\S)")
INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Za-z]")
# Where to cut a sentence, best first. Each pattern ends where the next piece starts.
BREATHS = tuple(map(re.compile, (
    r"[;:] ",
    r"[,)] ",
    r" (?=(?:and|but|or|so|because|which|who|that|when|while|where|if|then|than|as) )",
    r" ",
    r"\W",
)))  # fmt: skip
# Words that hibari would take for an abbreviation at the end of a sentence: "I said no."
ENDINGS = re.compile(r"\b(no|nos|fig|Fig|ch|Ch|vol|Vol|ed|eds|est|pp|[Tt]he Sun)\.(?! ?\d)")
# What hibari says and Lark hasn't been taught, and the nearest that it was.
UNTAUGHT = str.maketrans({"…": ",", "—": ",", '"': None, "“": None, "”": None, "a": "ɑ", "y": "i", "ʀ": "ɹ"})


class Reader:
    """hibari's grapheme-to-phoneme rules, loaded (0.3 s): lexicons, tagger, and a small network for unknown words."""

    def __init__(self) -> None:
        from hibari.g2p import ASSETS, G2P
        from hibari.g2p.normalize import ABBREV, TITLES, normalize

        self._g2p = G2P()
        self._g2p.oov("warm")
        self._normalize = normalize
        self._titles = frozenset(TITLES)
        self._abbreviations = frozenset(ABBREV) | {"No.", "Nos."}
        self.vocabulary: dict[str, int] = json.loads(Path(ASSETS, "vocab.json").read_text(encoding="utf-8"))

    def known(self, word: str) -> bool:
        """Whether the lexicons have this lower-case word."""
        return word in self._g2p.lexicon.golds or word in self._g2p.lexicon.silvers

    def ids(self, piece: str) -> tuple[int, ...]:
        """Phoneme ids of a piece of speakable text, between two pads."""
        tokens = self._g2p.phonemize_tokens(self._g2p.tokenize(self._normalize(ENDINGS.sub(r"\1 .", piece))))
        sound = "".join((token.phonemes or self._spelled(token.text)) + token.whitespace for token in tokens)
        sound = re.sub(r" +(?=[,.;:!?) ])|,(?=[,.;:!?])", "", sound.translate(UNTAUGHT)).strip()
        end = piece.rstrip(")'")[-1:]
        if end in ".!?,;:" and not sound.rstrip(")").endswith(end):  # after "p.m.": the model listens for the end
            sound += end
        return (0, *(self.vocabulary[c] for c in sound if c in self.vocabulary), 0)

    def _spelled(self, text: str) -> str:
        """A token for which hibari finds no sound, letter by letter: nothing that can be said is left out."""
        return " ".join(self._g2p(c.upper(), normalize_text=False) for c in text if c.isalnum())

    def ends_sentence(self, before: str, after: str) -> bool:
        """Whether a full stop (or the like) between these ends a sentence rather than an abbreviation."""
        if after[0].islower():
            return False
        if before[-1] != ".":
            return True
        word = before[:-1].rsplit(" ", 1)[-1].lstrip("('")
        initials = INITIALS.fullmatch(word) and word.lower() not in ("a.m", "p.m")
        return not (initials or word in self._titles or (after[0].isdigit() and word + "." in self._abbreviations))


@cache
def reader() -> Reader:
    """The one reader; the first call loads it."""
    return Reader()


@lru_cache(maxsize=1024)
def _ids(piece: str) -> tuple[int, ...]:
    return reader().ids(piece)


def phonemize(piece: str) -> list[int]:
    """Phoneme ids (below PHONEMES, at most MAX_IDS) of a piece that `split` made."""
    return list(_ids(piece))


def split(text: str) -> list[str]:
    """Text of any length -> pieces that fit one prompt each, in order, nothing dropped. Raises `InvalidRequest`."""
    lines = speakable(text, reader().known).splitlines()
    return [piece for line in lines for sentence in _sentences(line) for piece in _fit(sentence)]


def _sentences(line: str) -> list[str]:
    starts = [0]
    for end in SENTENCE_END.finditer(line):
        if reader().ends_sentence(line[: end.start()], line[end.end() :]):
            starts.append(end.end())
    return [line[a:b].strip() for a, b in pairwise([*starts, len(line)])]


def _fit(sentence: str) -> list[str]:
    """The sentence, or its halves and theirs until each fits."""
    if not any(map(str.isalnum, sentence)):
        return []
    if len(sentence) <= 2 * MAX_IDS and len(_ids(sentence)) <= MAX_IDS:  # longer ones can't fit: no need to look
        return [sentence]
    cut = _breath(sentence)
    first, rest = sentence[:cut].rstrip(), sentence[cut:].lstrip()
    return _fit(first if first[-1:] in ",;:)" else first + ",") + _fit(rest)


def _breath(sentence: str) -> int:
    """Where the second half starts: at the best kind of break around the middle, there the one nearest to it."""
    low, middle, high = (len(sentence) * part // 10 for part in (2, 5, 8))
    for kind in BREATHS:
        cuts = [match.end() for match in kind.finditer(sentence) if low <= match.end() <= high]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    return middle
