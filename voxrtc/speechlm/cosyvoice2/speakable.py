"""What is written in digits and signs, in words: CosyVoice 2's training had it so, and the reference does the same, by WeText.

Its grammars (numbers, dates, times, money, measures, abbreviations; Chinese, English and Japanese) get a stretch of words
around each number. Words that have none in their neighbourhood stay as they are. So a text can be read as it comes: what
becomes of a stretch hangs on the stretch alone, and where it ends on the word behind it.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from voxrtc.speechlm.cosyvoice2.text import SOUNDS

log = logging.getLogger(__name__)

MOST = 6  # words of a stretch
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
KANA, HANGUL = re.compile(r"[\u3040-\u30ff]"), re.compile(r"[\uac00-\ud7af]")
MARKS = "，。！？；：、"  # of languages that are written without blanks
WORD = re.compile(rf"[{MARKS}]+[”’」』）]*|[^\s{MARKS}]+")
SIGNS = re.compile(
    r"[\d$€£¥￥₩₹%‰°@&]|www\.|https?:"
    r"|^\W*(?:Mr|Mrs|Ms|Dr|Prof|Gen|Col|Capt|Lt|Sgt|St|Mt|vs|etc|Jr|Sr|Inc|Ltd|Co|Corp|Ave|Blvd|e\.g|i\.e|a\.m|p\.m)\."
)
STOP = re.compile(r"\w\w[.!?…][\"'”’)\]]*$")  # a sentence's end, if it is none of these abbreviations
AROUND = " \t“”‘’\"'()（）「」『』[]*_…"
PARTS = re.compile("(" + "|".join(map(re.escape, SOUNDS)) + ")")


@dataclass(frozen=True)
class Stretch:
    """Characters `begin` to `end` of what is written, what is said for them, and the character behind them, if there is one."""

    begin: int
    end: int
    said: str
    then: str


@dataclass(frozen=True)
class Speakable:
    """What a text's beginning is in words, with its blanks, and where in that each stretch ends."""

    text: str
    stretches: tuple[Stretch, ...]
    ends: tuple[int, ...]

    def written(self, end: int) -> int:
        """How much of what was written is said by `text[:end]`. Within words for a number it is about so much of the number."""
        number = bisect_left(self.ends, end)
        if number < len(self.ends):
            stretch = self.stretches[number]
            inside = end - (self.ends[number] - len(stretch.said))
            if inside > 0:
                return stretch.begin + inside * (stretch.end - stretch.begin) // len(stretch.said)
        return self.stretches[number - 1].end + end - self.ends[number - 1] if number else end


def speakable(written: str, final: bool) -> Speakable:
    """As much of a text as is known not to change whatever follows; all of it, if it is `final`."""
    text, at, ends = "", 0, []
    stretches = tuple(_stretches(written, final))
    for stretch in stretches:
        text += written[at : stretch.begin] + stretch.said
        at = stretch.end
        ends.append(len(text))
    return Speakable(text + written[at:] * final, stretches, tuple(ends))


def _stretches(written: str, final: bool) -> Iterator[Stretch]:
    words = [match.span() for match in WORD.finditer(written) if final or match.end() < len(written)]
    first = 0
    for number, (begin, end) in enumerate(words):
        following = written[slice(*words[number + 1])] if number + 1 < len(words) else ""
        then = written[end : end + 1]
        if then.isspace() and not following and not final and not CJK.search(written[begin:end]):
            return  # what comes may belong to it
        if number + 1 - first == MOST or not (then in (" ", "\t") and _joined(written[begin:end], following)):
            start, first = words[first][0], number + 1
            yield Stretch(start, end, in_words(written[start:end]), then)


def _joined(word: str, following: str) -> bool:
    """Whether one word's reading may hang on the next."""
    if not following or CJK.search(word) or (STOP.search(word) and not (SIGNS.search(word) or following[0].isdigit())):
        return False
    return bool(SIGNS.search(word) or SIGNS.search(following))


@lru_cache(1024)
def in_words(stretch: str) -> str:
    """A stretch, in the words of its language; the marks that a text may hold, like [laughter], stay."""
    if not any(map(SIGNS.search, stretch.split())):
        return stretch
    return "".join(part if number % 2 else _normal(part) for number, part in enumerate(PARTS.split(stretch)))


def _normal(part: str) -> str:
    """What is around it, like quotes, stays."""
    inner = part.strip(AROUND)
    grammar = None if HANGUL.search(inner) else _grammar("ja" if KANA.search(inner) else "zh" if CJK.search(inner) else "en")
    if not (inner and grammar):
        return part
    begin = part.index(inner)
    try:
        said = grammar.normalize(inner)
    except Exception:  # noqa: BLE001  it has no reading for this, and an exception a cause
        said = inner
    return part[:begin] + (said or inner) + part[begin + len(inner) :]


@cache
def _grammar(language: str):  # type: ignore[no-untyped-def]
    """WeText's, or None where it is not installed: there digits are left to the model."""
    try:
        from wetext import Normalizer
    except ModuleNotFoundError:
        log.warning("wetext is not installed, so numbers are not put into words. To have them: pip install wetext")
        return None
    return Normalizer(lang=language)
