"""Which part of a text each spoken word says, where the text was rewritten to be spoken: “$5” to “5 dollars”. Pure.

Words are compared in their order: those that are written and spoken alike are anchors, and what was rewritten lies between
two of them. A word of a text is what stands between blanks, with its marks (so where no blanks are written, a word is long).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate

FAR = 60  # parts of words that may lie between two anchors
PART = re.compile(r"[^\W\d_]+|\d+")
WORD = re.compile(r"\S+")
MARKS = frozenset(".,;:!?'\"()’“”…-")


def align(text: str, spoken: Sequence[str]) -> list[int]:
    """For each spoken word the number of the word of `text` that it says; these never fall.

    Where nothing tells, words that lie between two anchors share what is written between these by their order.
    """
    words = WORD.findall(text)
    written = [(part, word) for word, whole in enumerate(words) for part in _parts(whole)]
    said = [(part, word) for word, whole in enumerate(spoken) for part in _parts(whole)]
    said_by = [0] * len(said)
    i, j = -1, -1
    for a, b in [*_anchors([part for part, _ in written], [part for part, _ in said]), (len(written), len(said))]:
        between = _candidates(words, written, i, a)
        for k in range(j + 1, b):
            said_by[k] = between[(k - j - 1) * len(between) // (b - j - 1)]
        if b < len(said):
            said_by[b] = written[a][1]
        i, j = a, b
    last = dict(zip([word for _, word in said], said_by, strict=True))  # a word's last part decides
    return [last[word] for word in range(len(spoken))]


def sources(text: str, pieces: Sequence[str]) -> list[str]:
    """The part of `text` that each of the pieces says which it was rewritten into; together they are the text."""
    if not pieces:
        return []
    words = [WORD.findall(piece) or [piece] for piece in pieces]
    numbers = align(text, [word for piece in words for word in piece])
    begins = [match.start() for match in WORD.finditer(text)]
    firsts = accumulate([len(piece) for piece in words[:-1]], initial=0)
    cuts = [begins[numbers[first]] if begins and first else 0 for first in firsts]
    return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _parts(word: str) -> list[str]:
    """What of a word can be recognised: runs of letters and of digits; itself, where it has none."""
    return PART.findall(unicodedata.normalize("NFKC", word).casefold()) or [word]


def _anchors(written: Sequence[str], said: Sequence[str]) -> list[tuple[int, int]]:
    """Places where both have the same part, in order; each the nearest one after that before it."""
    found, i, j = [], 0, 0
    while i < len(written) and j < len(said):
        if written[i] != said[j]:
            ahead = _nearest_match(written[i : i + FAR], said[j : j + FAR])
            if ahead is None:
                break
            i, j = i + ahead[0], j + ahead[1]
        found.append((i, j))
        i, j = i + 1, j + 1
    return found


def _nearest_match(written: Sequence[str], said: Sequence[str]) -> tuple[int, int] | None:
    first = {part: a for a, part in reversed(list(enumerate(written)))}
    matches = [(first[part], b) for b, part in enumerate(said) if part in first]
    return min(matches, key=sum) if matches else None


def _candidates(words: Sequence[str], written: Sequence[tuple[str, int]], i: int, a: int) -> list[int]:
    """The words that may say what was rewritten between the parts `i` and `a`: those between them, and one with a sign, like
    “$5” before or “#5” after."""
    between = [word for _, word in written[i + 1 : a]]
    before, after = [word for _, word in written[max(i, 0) : i + 1]], [word for _, word in written[a : a + 1]]
    if before and _has_sign(words[before[0]]):
        return before + between
    if not between and after and _has_sign(words[after[0]]):
        return after
    return between or before or after or [0]


def _has_sign(word: str) -> bool:
    return any(not c.isalnum() and c not in MARKS for c in word)
