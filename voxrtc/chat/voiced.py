"""A text as it is spoken: which of its words are heard when so much of its sound was played. Pure.

A word counts as heard when half of its sound was played. Where the engine tells when a word is spoken (`engine.Spoken`),
that is when; what it tells of several words at once is shared among them by their letters. Of what it has not told yet, a
usual speed of speech is expected. What is played is what was sent: a browser renders it 60 to 100 ms later.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right

LETTERS = 15.0  # a second, of speech
NEARLY = 0.01  # seconds by which a clock that counts samples may fall short of sums of floats

WORD = re.compile(r"\S+")


class Voiced:
    """A text as it grows (`say`), its sound (`add`), and what is known of when it is spoken (`spoken`, `end`)."""

    def __init__(self) -> None:
        self.text = ""
        self.seconds = 0.0  # of sound made so far
        self._halves = array("d")  # when half of each word is played, of those whose time is known
        self._ends = array("l")  # where these end in the text
        self._known = (0.0, 0)  # the second and the character up to which times are known

    def say(self, text: str) -> None:
        """More of the text begins to be made."""
        self.text += text

    def add(self, seconds: float) -> None:
        """So much more of its sound is made."""
        self.seconds += seconds

    def spoken(self, begin: float, end: float, characters: int) -> None:
        """The text from the last word known on, up to `characters`, is spoken between these seconds."""
        begin, end = max(begin, self._known[0]), max(end, self._known[0])
        characters = min(max(characters, self._known[1]), len(self.text))
        for half, at in self._words(begin, end, characters):
            self._halves.append(half)
            self._ends.append(at)
        self._known = (end, characters)

    def end(self) -> None:
        """All of the text so far is spoken in the sound so far."""
        self.spoken(self._known[0], self.seconds, len(self.text))

    def heard(self, seconds: float) -> str:
        """The words that are heard in so many seconds."""
        return self.text[: self.characters(seconds)]

    def characters(self, seconds: float) -> int:
        """How many of the text are heard in so many seconds: up to the end of a word, or none."""
        heard = bisect_right(self._halves, seconds + NEARLY)
        if heard < len(self._halves):
            return self._ends[heard - 1] if heard else 0
        expected = (end for half, end in self._expected() if half <= seconds + NEARLY)
        return max(expected, default=self._ends[-1] if heard else 0)

    def next(self, characters: int) -> float | None:
        """When the word after so many characters is heard; None when there is none."""
        heard = bisect_right(self._ends, characters)
        if heard < len(self._ends):
            return self._halves[heard]
        return next((half for half, end in self._expected() if end > characters), None)

    def _expected(self) -> list[tuple[float, int]]:
        """The words whose time is not known yet, as if they were spoken at the usual speed, or slower as they are."""
        begin, said = self._known
        return self._words(begin, max(self.seconds, begin + (len(self.text) - said) / LETTERS), len(self.text))

    def _words(self, begin: float, end: float, upto: int) -> list[tuple[float, int]]:
        """The next words, spoken between these seconds: when half of each is, and where it ends."""
        if not (words := [word.span() for word in WORD.finditer(self.text, self._known[1], upto)]):
            return []
        second = (end - begin) / (words[-1][1] - words[0][0])  # of a letter
        return [(begin + second * ((a + b) / 2 - words[0][0]), b) for a, b in words]
