"""Text of any length -> pieces that a model can speak at a time, cut where a speaker would pause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from voxrtc.speechlm.base import InvalidRequest

SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])")
BREAKS = (re.compile(r"[,;:—–，；：、]\s*"), re.compile(r"\s+"), re.compile(r"(?=.)"))  # the best first


def pieces(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Lines are kept apart; in a line each piece holds as many whole sentences as fit, and nothing but spaces is dropped.

    `fits` must hold for every single character. Raises `InvalidRequest` where there is nothing to say.
    """
    if not any(map(str.isalnum, text)):
        raise InvalidRequest("There is nothing to say in this text.")
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [piece for line in lines if line for piece in pack(_parts(line, fits), fits)]


def pack(parts: Iterable[str], fits: Callable[[str], bool]) -> list[str]:
    """Parts of a text in their order, neighbours joined as long as they still fit together."""
    packed: list[str] = []
    for part in parts:
        if packed and fits(joined := f"{packed[-1]} {part}"):
            packed[-1] = joined
        else:
            packed.append(part)
    return packed


def _parts(line: str, fits: Callable[[str], bool]) -> Iterator[str]:
    for sentence in _sentences(line):
        yield from _cut(sentence, fits)


def _sentences(line: str) -> list[str]:
    ends = [match.end() for match in SENTENCE.finditer(line)]
    return [part for a, b in zip([0, *ends], [*ends, len(line)], strict=True) if (part := line[a:b].strip())]


def _cut(sentence: str, fits: Callable[[str], bool]) -> list[str]:
    """The sentence, or its halves and theirs until each fits."""
    if fits(sentence):
        return [sentence]
    at = _break(sentence)
    return _cut(sentence[:at].rstrip(), fits) + _cut(sentence[at:].lstrip(), fits)


def _break(sentence: str) -> int:
    """Where the second half starts: the best kind of break in the middle part, there the one nearest to the middle."""
    low, middle, high = len(sentence) // 5, len(sentence) // 2, len(sentence) * 4 // 5
    for kind in BREAKS:
        cuts = [match.end() for match in kind.finditer(sentence) if max(1, low) <= match.end() <= max(1, high)]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    return middle
