"""Text that comes bit by bit, cut where a voice may begin to speak: the first piece early, the rest by sentences. Pure."""

from __future__ import annotations

import re

SHORT = 12  # characters that a first clause has at least: a model speaks a longer one better
LONGEST = 200  # characters; then any space will do

CLAUSE = re.compile(r"[,;:.!?…—]+[\"'”’)]*\s")
SENTENCE = re.compile(r"[.!?…]+[\"'”’)]*\s")


class Clauses:
    """`add` what comes, then speak the `rest`."""

    def __init__(self) -> None:
        self._text = ""
        self._begun = False

    def add(self, delta: str) -> list[str]:
        """The pieces that are whole now, without the spaces around them."""
        self._text += delta
        pieces = []
        while (end := self._end()) is not None:
            pieces.append(self._text[:end].strip())
            self._text, self._begun = self._text[end:], True
        return [piece for piece in pieces if piece]

    def rest(self) -> str:
        """What is left when nothing follows."""
        text, self._text = self._text.strip(), ""
        return text

    def _end(self) -> int | None:
        pattern, least = (SENTENCE, 0) if self._begun else (CLAUSE, SHORT)
        for match in pattern.finditer(self._text):
            if match.end() > least:
                return match.end()
        if len(self._text) > LONGEST:
            return self._text.rfind(" ", 0, LONGEST) + 1 or LONGEST
        return None
