"""Lark's text while it is still being written: each word is read once the two after it are known, and stays as it was read.

What a word sounds like depends on what stands around it: “the” on the next word's first sound, “read” on its part in the
sentence, “$5” on whether “million” follows. Two words ahead are what the tagger looks at. A word is read with just these,
however much more is there, so that the phonemes do not depend on how the text came. A sentence is a prompt, as in `text`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from voxrtc.speechlm.alignment import align, sources
from voxrtc.speechlm.base import InvalidRequest, Word
from voxrtc.speechlm.lark import text

AHEAD = 2  # words
LONG, LONGER = 110, 130  # ids, after which a pause in the sentence ends a prompt, or the place before a conjunction
PAD = 0
WORD = re.compile(r"\S+")
PAUSE = re.compile(r"[,;:)]$")
CONJUNCTION = re.compile(r"(?:and|but|or|so|because|which|who|that|when|while|where|if|then|than|as)$")


@dataclass(frozen=True)
class Script:
    """The beginning of a text, read: phoneme ids, and the words that have sounds among the `count` that were read."""

    ids: tuple[int, ...] = (PAD,)
    words: tuple[Word, ...] = ()
    count: int = 0
    whole: bool = False  # a sentence or so is over
    characters: int = 0  # of the text that were read


def read_on(script: Script, written: str, final: bool) -> Script:
    """As much more of a text as can be read by now, to the end of a sentence at most. Raises `InvalidRequest`.

    `written` is all there is, from the script's beginning on; its last word counts once a blank or the end (`final`) follows.
    """
    words = [match.span() for match in WORD.finditer(written)]
    if words and not final and words[-1][1] == len(written):
        words.pop()
    while not script.whole and script.count < len(words) - (0 if final else AHEAD):
        known = words[: script.count + 1 + AHEAD]
        script = _read_word(script, written[: known[-1][1]], known, last=script.count == len(words) - 1)
    return script


def _read_word(script: Script, written: str, words: list[tuple[int, int]], last: bool) -> Script:
    """One word more, number `count` of `words`; `written` ends with the last of these."""
    number, (start, end) = script.count, words[script.count]
    ids, sounds, over = _sounds(written, number, end)
    if len(script.words) and (sounds is None or len(script.ids) + len(ids) >= text.MAX_IDS):
        return _close(script)  # the sentence ended before it, or there is no room
    ids, at = ids[: text.MAX_IDS - 2], len(script.ids)
    said = script.words
    if sounds is not None and sounds[1]:
        said = (*said, Word(at + sounds[0], at + min(sounds[1], len(ids)), end))
    elif said:
        said = (*said[:-1], replace(said[-1], characters=end))
    script = Script((*script.ids, *ids), said, number + 1, characters=end)
    spoken, following = written[start:end], "" if last else written[slice(*words[number + 1])]
    pause = (len(script.ids) >= LONG and PAUSE.search(spoken)) or (len(script.ids) >= LONGER and CONJUNCTION.match(following))
    return _close(script) if over or last or pause else script


def _sounds(written: str, number: int, end: int) -> tuple[tuple[int, ...], tuple[int, int] | None, bool]:
    """The ids of a word of a text with all that follows up to the next; where among them its own sounds begin and end (0, 0:
    it has none; None: its sentence has ended before it); and whether the sentence ends with it."""
    try:
        pieces = text.split(written)
    except InvalidRequest:
        if any(map(str.isalnum, written)):
            raise
        return (), (0, 0), False  # signs only, so far
    source = sources(written, pieces)[0]
    if len(source.rstrip()) < end:
        return (), None, True
    reading = text.reading(pieces[0])
    numbers = align(source, [word for word, _, _ in reading.words])
    own = [where for where, said in zip(reading.words, numbers, strict=True) if said == number]
    later = [begin for (_, begin, _), said in zip(reading.words, numbers, strict=True) if said > number]
    over = len(pieces) > 1 and len(source.rstrip()) <= end
    if not own:
        return (), (0, 0), over
    first = 1 if number == 0 else own[0][1]
    until = later[0] if later else len(reading.ids) - 1
    return reading.ids[first:until], (own[0][1] - first, own[-1][2] - first), over


def _close(script: Script) -> Script:
    """The prompt ends here; with a comma where nothing else says so."""
    blank, comma = (text.reader().vocabulary[mark] for mark in " ,")
    ids = script.ids[:-1] if script.ids[-1] == blank else script.ids
    mark = (comma,) if ids[-1] > text.SILENT else ()
    return replace(script, ids=(*ids, *mark, PAD), whole=True)
