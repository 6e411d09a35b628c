"""Text of any length -> pieces that Lark can speak -> phoneme ids, by hibari's lexicon and rules.

A piece is one sentence, as the model was taught; a sentence too long for it is cut where a speaker would breathe.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from voxrtc.speechlm.alignment import align
from voxrtc.speechlm.base import Word
from voxrtc.speechlm.lark.speakable import speakable

PHONEMES = 178  # ids
SILENT = 16  # the last of the ids that are no sounds: pads, marks and the blank
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


@dataclass(frozen=True)
class Reading:
    """A piece as it is read out: phoneme ids, between two pads, and the spoken words, each with the ids [begin, end) it has."""

    ids: tuple[int, ...]
    words: tuple[tuple[str, int, int], ...]


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

    def read(self, piece: str) -> Reading:
        """How to say a piece of speakable text."""
        tokens = self._g2p.phonemize_tokens(self._g2p.tokenize(self._normalize(ENDINGS.sub(r"\1 .", piece))))
        sounds = [(token.phonemes or self._spelled(token.text)) + token.whitespace for token in tokens]
        letters = [(c, word) for word, sound in enumerate(sounds) for c in sound.translate(UNTAUGHT)]
        sound = "".join(c for c, _ in letters)
        superfluous = _superfluous(sound)
        letters = [letter for at, letter in enumerate(letters) if at not in superfluous]
        end, last = piece.rstrip(")'")[-1:], "".join(c for c, _ in letters).rstrip(")")[-1:]
        if end in ".!?,;:" and last != end:  # after "p.m.": the model listens for the end
            letters.append((end, len(tokens) - 1))
        ids = [(self.vocabulary[c], word) for c, word in letters if c in self.vocabulary]
        where: dict[int, list[int]] = {}
        for at, (i, word) in enumerate(ids, 1):  # behind the pad
            if i > SILENT:
                where.setdefault(word, []).append(at)
        words = tuple((tokens[word].text, at[0], at[-1] + 1) for word, at in where.items())
        return Reading((0, *(i for i, _ in ids), 0), words)

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


def _superfluous(sound: str) -> set[int]:
    """What of a string of phonemes is not read: blanks at its ends and before marks, and commas before other marks."""
    spans = re.finditer(r"^\s+|\s+$| +(?=[,.;:!?) ])|,(?=[,.;:!?])", sound)
    return {at for span in spans for at in range(*span.span())}


@lru_cache(maxsize=1024)
def reading(piece: str) -> Reading:
    """How a piece that `split` made is said."""
    return reader().read(piece)


def phonemize(piece: str) -> list[int]:
    """Phoneme ids (below PHONEMES, at most MAX_IDS) of a piece that `split` made."""
    return list(reading(piece).ids)


def words(piece: str, source: str) -> tuple[Word, ...]:
    """The words of `source`, which `piece` was made of, that have sounds: where in `phonemize(piece)`. What is silent after a
    word counts as said with it."""
    read = reading(piece).words if source.strip() else ()
    numbers = align(source, [word for word, _, _ in read])
    ends = [match.end() for match in re.finditer(r"\S+", source)]
    found: dict[int, Word] = {}
    for number, (_, begin, end) in zip(numbers, read, strict=True):
        begin = found[number].begin if number in found else begin
        found[number] = Word(begin, end, ends[number])
    silent = [following - 1 for following in [*found, len(ends)][1:]]
    return tuple(Word(word.begin, word.end, ends[last]) for word, last in zip(found.values(), silent, strict=True))


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
    if len(sentence) <= 2 * MAX_IDS and len(reading(sentence).ids) <= MAX_IDS:  # longer ones can't fit: no need to look
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
