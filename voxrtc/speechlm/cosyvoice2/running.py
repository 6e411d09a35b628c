"""CosyVoice 2's text while it is still being written: five tokens of it, fifteen codes, and so on (arXiv 2412.10117).

The model was trained on both: all text first, or text and codes in turn. So a text can be spoken as it comes, and what is said
hangs on the text alone, since a turn waits until its five tokens are known. What is left when a text ends is given at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from voxrtc.speechlm.base import Word
from voxrtc.speechlm.cosyvoice2.text import Writer

TEXT, CODES = 5, 15  # of a turn
TURN = TEXT + CODES  # positions
ENOUGH, MOST = 40, 64  # tokens of text: from so many on a sentence's end ends a prompt; more do not fit one
SENTENCE = re.compile(r"[.!?…。！？][\"'”’)\]」』）]*$")
# No token reaches across these places: before blanks, and before the marks of languages that are written without any.
BREAK = re.compile(r"(?<=\S)(?=\s)|(?<=\w)(?=[，。！？；：、])")
CLOSED = re.compile(r"(?<=[。！？])(?=[^。！？”’」』）\s])")  # behind such a mark a prompt may end, though a token might go on


@dataclass(frozen=True)
class Script:
    """As much of a text as can be read by now."""

    ids: tuple[int, ...]
    words: tuple[Word, ...]  # a turn each, until whose end so much is said
    characters: int
    whole: bool  # nothing follows in this prompt

    @property
    def turns(self) -> int:
        """Those whose text is known."""
        return len(self.ids) // TEXT


def read(writer: Writer, written: str, final: bool) -> Script | None:
    """`written` is what there is from a prompt's beginning on; None where there is no word yet, or `final`ly none.

    It does not matter how much more there is: a prompt ends where it ends.
    """
    written = re.sub(r"\s", " ", written)  # a token may be a mark with the line's end behind it
    end, whole = _end(writer, written, final)
    if not any(map(str.isalnum, written[:end])):
        return None
    ids, ends = writer.ids_and_ends(written[:end])
    words = tuple(Word(i, i + 1, ends[TEXT * (i + 1) - 1]) for i in range(len(ids) // TEXT))
    return Script(tuple(ids), words, end, whole)


def _end(writer: Writer, written: str, final: bool) -> tuple[int, bool]:
    """How much of a text can be read, and whether its prompt ends there."""
    end = 0
    for place, stable in _places(written, final):
        count = len(writer.ids(written[:place]))
        if count > MOST:
            return (end or _most(writer, written[:place])), True
        if count >= ENOUGH and SENTENCE.search(written[:place]):
            return place, True
        end = place if stable else end
    return end, final


def _places(written: str, final: bool) -> list[tuple[int, bool]]:
    """Where what is known may end, in order, and whether what is read up to there will be read alike when more is known."""
    places = [(match.start(), True) for match in BREAK.finditer(written)]
    places += [(match.start(), False) for match in CLOSED.finditer(written)]
    return sorted(places) + [(len(written.rstrip()), True)] * final


def _most(writer: Writer, written: str) -> int:
    """As much as fits of what has no place to break."""
    end = len(written)
    while len(writer.ids(written[:end])) > MOST:
        end -= max(1, end // 8)
    return end
