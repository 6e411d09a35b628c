"""When each word of a piece is spoken, as far as its frames are made. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from voxrtc.messages.engine import Spoken
from voxrtc.speechlm.base import Word


@dataclass
class Words:
    """Follows a piece through its text; a listener is told of each word once (`news`), and of the piece's end (`rest`)."""

    words: Sequence[Word]  # of the prompt
    characters: int  # of the text that the piece is made of
    frame_rate: float
    begin: float = 0.0  # seconds of the stream's sound before it
    before: int = 0  # characters of the stream's text before its own
    ends: list[int] = field(default_factory=list)  # frames made when each unit was spoken, of those that are
    told: int = 0  # words that the listener knows of

    def passed(self, frames: int, units: int) -> None:
        """With the last of so many `frames` the next `units` of the text end."""
        self.ends += [frames] * units

    def news(self) -> list[Spoken]:
        """The words that are known to be spoken and were not told."""
        known = [word for word in self.words[self.told :] if word.end <= len(self.ends)]
        self.told += len(known)
        return [
            Spoken(begin=self._seconds(word.begin), end=self._seconds(word.end), characters=self.before + word.characters)
            for word in known
        ]

    def rest(self, delivered: float) -> Spoken:
        """What follows the last word told, or all of a piece without words, now that its sound ends `delivered` seconds into
        the stream's."""
        begin = self._seconds(self.words[self.told - 1].end) if self.told else self.begin
        return Spoken(begin=min(begin, delivered), end=delivered, characters=self.before + self.characters)

    def _seconds(self, units: int) -> float:
        """When so many units are spoken."""
        return self.begin + (self.ends[units - 1] if units else 0) / self.frame_rate
