"""Which words of a text a listener has heard, by the playout clock. Pure.

A word counts as heard when half of its sound was played. Where the engine tells when a word is spoken (`Spoken`), that is when;
what it tells of several words at once is shared among them by their letters. Of what it has not told yet, a usual speed of
speech is expected. The clock counts what was sent: a browser renders it 60 to 100 ms later.
"""

from __future__ import annotations

import re
from bisect import bisect_right

LETTERS = 15.0  # a second, of speech
NEARLY = 0.01  # seconds by which a clock that counts samples may fall short of sums of floats

WORD = re.compile(r"\S+")


class Heard:
    """A text as it grows (`say`), its sound (`sounds`), and what is known of when it is spoken (`spoken`, `close`).

    Ask with a clock that does not go back: what was heard once stays heard, whatever becomes known later.
    """

    def __init__(self) -> None:
        self.text = ""
        self.made = 0.0  # seconds of sound
        self._halves: list[float] = []  # when half of each word is played, of those whose time is known
        self._ends: list[int] = []  # where these end in the text
        self._known = (0.0, 0)  # the second and the character up to which times are known
        self._most = 0

    def say(self, text: str) -> None:
        """More of the text."""
        self.text += text

    def sounds(self, seconds: float) -> None:
        """More of its sound is made."""
        self.made += seconds

    def spoken(self, begin: float, end: float, characters: int) -> None:
        """What of the text follows the last word known, up to `characters`, is spoken between these seconds."""
        begin, end = max(begin, self._known[0]), max(end, self._known[0])
        characters = min(max(characters, self._known[1]), len(self.text))
        for half, at in self._words(begin, end, characters):
            self._halves.append(half)
            self._ends.append(at)
        self._known = (end, characters)

    def close(self) -> None:
        """All of the text so far is spoken in the sound so far."""
        self.spoken(self._known[0], self.made, len(self.text))

    def characters(self, played: float) -> int:
        """How many of the text were heard in the seconds played: up to the end of a word, or none."""
        passed = bisect_right(self._halves, played + NEARLY)
        at = [self._ends[passed - 1]] if passed else [0]
        if passed == len(self._halves):
            at += [end for half, end in self._expected() if half <= played + NEARLY]
        self._most = max(self._most, at[-1])
        return self._most

    def next(self) -> float | None:
        """When the word after those that were heard will be; None when nothing is left."""
        told = bisect_right(self._ends, self._most)
        if told < len(self._ends):
            return self._halves[told]
        return next((half for half, end in self._expected() if end > self._most), None)

    def _expected(self) -> list[tuple[float, int]]:
        """The words whose time is not known yet, as if they were spoken at the usual speed, or slower as they are."""
        begin, said = self._known
        return self._words(begin, max(self.made, begin + (len(self.text) - said) / LETTERS), len(self.text))

    def _words(self, begin: float, end: float, upto: int) -> list[tuple[float, int]]:
        """The next words, spoken between these seconds: when half of each is, and where it ends."""
        if not (words := [word.span() for word in WORD.finditer(self.text, self._known[1], upto)]):
            return []
        second = (end - begin) / (words[-1][1] - words[0][0])  # of a letter
        return [(begin + second * ((a + b) / 2 - words[0][0]), b) for a, b in words]
