"""A text that comes while it is being spoken, and how much of it has become prompts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from voxrtc.speechlm.base import Prompt


@dataclass
class Running:
    text: str
    final: bool = False  # all of it has come
    prompt: Prompt | None = None  # of the piece that is not whole yet
    taken: int = 0  # characters in prompts that are whole
    exhausted: bool = False  # there is nothing more to say
    _seen: tuple[int, bool] | None = None  # how much there was when it was read last

    def add(self, text: str, final: bool) -> None:
        """More of it."""
        self.text, self.final = self.text + text, final

    @property
    def news(self) -> bool:
        """There is something that was not read yet."""
        return not self.exhausted and self._seen != (len(self.text), self.final)

    def read(self) -> str:
        """What is there of the piece that is not whole, and of those after it."""
        self._seen = len(self.text), self.final
        return self.text[self.taken :]

    def take(self, prompt: Prompt | None) -> None:
        """What came of reading it: the piece's prompt as it is now, or nothing yet. Behind a whole one there may be more."""
        if prompt and prompt.reach is None:
            self.taken, self.prompt, self._seen = self.taken + prompt.characters, None, None
        elif prompt:
            self.prompt = prompt
