"""A conversation as a chat model was tuned to read it: ChatML, which SmolLM2 and Qwen2.5 share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from voxrtc.messages.completion import ChatMessage
from voxrtc.speechlm.weights import WeightsError

START, END = "<|im_start|>", "<|im_end|>"
OPENING = 1500  # tokens of instructions and examples
CONVERSATION = 384  # tokens of what was said: a small model is lost in more
STEP = 128  # tokens: by about so much an old conversation is cut at once, so that what is kept in the cache seldom changes


class TooLong(Exception):
    """A message that does not fit. The text is for the person to read."""


@dataclass(frozen=True)
class Prompt:
    """Token ids, and how many of them are instructions and examples, which other conversations may share."""

    ids: list[int]
    opening: int


class Prompter:
    """Makes prompts with a model's tokenizer. What people say is text, whatever it looks like: it cannot hold marks."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self._start, self.end = (self._mark(mark) for mark in (START, END))

    def prompt(self, messages: Sequence[ChatMessage], examples: Sequence[ChatMessage]) -> Prompt:
        """What the assistant is to continue: the instructions, if the first message is such, the examples, the conversation.

        The oldest of that is left out where it is more than `CONVERSATION`. Raises `TooLong` for what does not fit.
        """
        instructed = messages[:1] if messages and messages[0].role == "system" else []
        opening = [id for message in (*instructed, *examples) for id in self._message(message)]
        said = [self._message(message) for message in messages[len(instructed) :]]
        if len(opening) > OPENING:
            raise TooLong("These instructions are too long for the chat model on this machine. Please use fewer words.")
        first = _first(list(map(len, said)))
        answer = [self._start, *self._ids("assistant\n")]
        return Prompt([*opening, *(id for message in said[first:] for id in message), *answer], len(opening))

    def _message(self, message: ChatMessage) -> list[int]:
        return [self._start, *self._ids(f"{message.role}\n{message.content}"), self.end, *self._ids("\n")]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _mark(self, mark: str) -> int:
        id = self.tokenizer.token_to_id(mark)
        if id is None:
            raise WeightsError(f"The tokenizer has no {mark}: this is no model for conversations in ChatML.")
        return id


def _first(lengths: list[int]) -> int:
    """The first message that is kept, so that it and all that follow fit. Raises `TooLong`."""
    over = sum(lengths) - CONVERSATION
    if over <= 0:
        return 0
    if lengths[-1] > CONVERSATION:
        raise TooLong("That was too long for the chat model on this machine. Please say it in fewer words.")
    drop = -(-over // STEP) * STEP
    before, first = 0, 0
    while first < len(lengths) - 1 and before < drop:
        before += lengths[first]
        first += 1
    return first
