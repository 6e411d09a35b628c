"""A text as it is spoken, and how much of it was heard when so much of its sound was played. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LETTERS = 15.0  # a second, of speech


@dataclass(slots=True)
class _Piece:
    text: str
    seconds: float = 0.0  # of its sound so far
    whole: bool = False  # all of it is made

    @property
    def lasts(self) -> float:
        """Seconds; a piece that is still being made is taken to last as long as usual."""
        return self.seconds if self.whole else max(self.seconds, len(self.text) / LETTERS)


class Voiced:
    """Pieces, spoken one after another without a pause. Of each: `begin`, its sound, `end`."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    def begin(self, text: str) -> None:
        self._pieces.append(_Piece(text))

    def add(self, seconds: float) -> None:
        """So much more of the present piece's sound is made."""
        self._pieces[-1].seconds += seconds

    def end(self) -> None:
        """The present piece's sound is all made."""
        self._pieces[-1].whole = True

    @property
    def text(self) -> str:
        """As far as it has begun to be made."""
        return " ".join(piece.text for piece in self._pieces)

    @property
    def seconds(self) -> float:
        """Of sound made so far."""
        return sum(piece.seconds for piece in self._pieces)

    @property
    def before(self) -> float:
        """Seconds of sound before the present piece."""
        return sum(piece.seconds for piece in self._pieces[:-1])

    def heard(self, seconds: float) -> str:
        """The words that were heard in so many seconds: in each piece by their share of its sound, as models do not tell
        when each comes."""
        heard = []
        for piece in self._pieces:
            share = seconds / max(piece.lasts, 0.001)
            if share <= 0.99:
                heard.append(piece.text[: round(max(0.0, share) * len(piece.text))].rpartition(" ")[0])
                break
            heard.append(piece.text)
            seconds -= piece.seconds
        return " ".join(filter(None, heard))
