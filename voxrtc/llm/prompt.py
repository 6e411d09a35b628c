"""A conversation as a chat model was tuned to read it: ChatML, which SmolLM2 and Qwen2.5 share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from voxrtc.messages import ChatMessage
from voxrtc.speechlm.weights import WeightsError

START, END = "<|im_start|>", "<|im_end|>"
STEP = 256  # tokens: by about so much an old conversation is cut at once, so that what is kept in the cache seldom changes


class TooLong(Exception):
    """A message that does not fit. The text is for the person to read."""


@dataclass(frozen=True)
class Prompt:
    """Token ids, and how many of them are the instructions, which other conversations may share."""

    ids: list[int]
    opening: int


class Prompter:
    """Makes prompts with a model's tokenizer. What people say is text, whatever it looks like: it cannot hold marks."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self._start, self.end = (self._mark(mark) for mark in (START, END))

    def prompt(self, messages: Sequence[ChatMessage], most: int) -> Prompt:
        """What the assistant is to continue, in at most `most` tokens: the oldest messages are left out, but not the
        instructions, if the first is such. Raises `TooLong` when the last message alone does not fit."""
        rooms = [self._message(each) for each in messages]
        fixed = 1 if messages and messages[0].role == "system" else 0
        opening = rooms[0] if fixed else []
        answer = [self._start, *self._ids("assistant\n")]
        first = _first(list(map(len, rooms[fixed:])), most - len(opening) - len(answer))
        said = [id for room in rooms[fixed + first :] for id in room]
        return Prompt(opening + said + answer, len(opening))

    def _message(self, message: ChatMessage) -> list[int]:
        return [self._start, *self._ids(f"{message.role}\n{message.content}"), self.end, *self._ids("\n")]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _mark(self, mark: str) -> int:
        id = self.tokenizer.token_to_id(mark)
        if id is None:
            raise WeightsError(f"The tokenizer has no {mark}: this is no model for conversations in ChatML.")
        return id


def _first(lengths: list[int], room: int) -> int:
    """The first message that is kept, so that it and all that follow fit into `room`. Raises `TooLong`."""
    over = sum(lengths) - room
    if over <= 0:
        return 0
    if lengths[-1] > room:
        raise TooLong("That was too long for the chat model that comes along. Please say it in fewer words.")
    drop = -(-over // STEP) * STEP
    before, first = 0, 0
    while first < len(lengths) - 1 and before < drop:
        before += lengths[first]
        first += 1
    return first
