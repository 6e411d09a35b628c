"""One thing that the person said: its item, and its words as they become known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tell = Callable[..., None]  # type and fields of a server event
Guessed = Callable[["Spoken", str, int, float], None]  # upon a look: words, bytes heard, probability that it is finished
EVENT = "conversation.item.input_audio_transcription"


class Spoken:
    """A turn's `asr.client.Reader`. Deltas are words that two hypotheses in a row agree on, so they can be appended.

    The client hears of it from `announce` on; until then it may turn out to be no turn.
    """

    def __init__(self, id: str, tell: Tell, said: Callable[[str, str | None], None], guessed: Guessed) -> None:
        self.id = id
        self._tell, self._said, self._guessed = tell, said, guessed
        self._announced = self._committed = False
        self._trouble: dict[str, Any] | None = None
        self._last: list[str] = []  # words of the latest hypothesis
        self._told = 0  # words

    def announce(self) -> None:
        """The client knows of it."""
        self._announced = True

    def commit(self) -> None:
        """The item is in the conversation. Trouble that came before is told now."""
        self._committed = True
        if self._trouble:
            self._tell(f"{EVENT}.failed", **self._place(), error=self._trouble)
            self._said(self.id, None)

    def hypothesis(self, text: str, heard: int, over: float | None) -> None:
        if over is not None:
            self._guessed(self, text, heard, over)
        words, before = text.split(), self._last
        self._last = words
        agreed = 0
        while agreed < min(len(words), len(before)) and words[agreed] == before[agreed]:
            agreed += 1
        if self._announced and agreed > self._told:
            delta = " ".join(words[self._told : agreed])
            self._tell(f"{EVENT}.delta", **self._place(), delta=f" {delta}" if self._told else delta)
            self._told = agreed

    def transcript(self, text: str) -> None:
        self._tell(f"{EVENT}.completed", **self._place(), transcript=text)
        self._said(self.id, text)

    def unheard(self, code: str, message: str) -> None:
        self._trouble = {"type": "server_error", "code": code, "message": message, "param": None}
        if self._committed:
            self.commit()

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "content_index": 0}
