"""CosyVoice 2's text while it is still being written: five tokens of it, fifteen codes, and so on (arXiv 2412.10117).

The model was trained on both: all text first, or text and codes in turn. So a text can be spoken as it comes, and what is said
hangs on the text alone, since a turn waits until its five tokens are known. What is left when a text ends is given at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from voxrtc.speechlm.base import Word
from voxrtc.speechlm.cosyvoice2.speakable import MARKS, Speakable, speakable
from voxrtc.speechlm.cosyvoice2.text import Writer

TEXT, CODES = 5, 15  # of a turn
TURN = TEXT + CODES  # positions
ENOUGH, MOST = 40, 64  # tokens of text: from so many on a sentence's end ends a prompt; more do not fit one
SENTENCE = re.compile(r"[.!?…。！？][\"'”’)\]」』）]*$")
CLOSED = re.compile(r"[。！？][”’」』）]*$")  # behind such marks a prompt may end, though a token might go on


@dataclass(frozen=True)
class Script:
    """As much of a text as can be read by now."""

    ids: tuple[int, ...]
    words: tuple[Word, ...]  # a turn each, until whose end so much is said
    characters: int
    whole: bool  # nothing follows in this prompt
    said: str = ""  # what is read of these characters, in words

    @property
    def turns(self) -> int:
        """Those whose text is known."""
        return len(self.ids) // TEXT


def read(writer: Writer, written: str, final: bool) -> Script | None:
    """`written` is what there is from a prompt's beginning on; None where there is no word yet, or `final`ly none.

    It does not matter how much more there is: a prompt ends where it ends.
    """
    known = speakable(written, final)
    known = replace(known, text=re.sub(r"\s", " ", known.text))  # a token may be a mark with the line's end behind it
    end, whole = _end(writer, known, final)
    said = known.text[:end]
    if not any(map(str.isalnum, said)):
        return None
    ids, ends = writer.ids_and_ends(said)
    words = tuple(Word(i, i + 1, known.written(ends[TEXT * (i + 1) - 1])) for i in range(len(ids) // TEXT))
    return Script(tuple(ids), words, known.written(end), whole, said)


def _end(writer: Writer, known: Speakable, final: bool) -> tuple[int, bool]:
    """How much of a text can be read, and whether its prompt ends there."""
    end, said = 0, known.text
    for place, stable in _places(known, final):
        count = len(writer.ids(said[:place]))
        if count > MOST:
            return (end or _most(writer, said[:place])), True
        if count >= ENOUGH and SENTENCE.search(said[:place]):
            return place, True
        end = place if stable else end
    return end, final


def _places(known: Speakable, final: bool) -> list[tuple[int, bool]]:
    """Where what is known may end, in order, and whether what is read up to there will be read alike when more is known.

    No token reaches across a blank's beginning, or between a letter and the marks of languages that are written without blanks.
    Behind a full stop of these a prompt may end all the same.
    """
    places = []
    for end, stretch in zip(known.ends, known.stretches, strict=True):
        stable = stretch.then.isspace() or (stretch.then in MARKS and stretch.said[-1].isalnum())
        if stable or CLOSED.search(stretch.said):
            places.append((end, stable))
    return places + [(len(known.text.rstrip()), True)] * final


def _most(writer: Writer, written: str) -> int:
    """As much as fits of what has no place to break."""
    end = len(written)
    while len(writer.ids(written[:end])) > MOST:
        end -= max(1, end // 8)
    return end
