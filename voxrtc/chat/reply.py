"""What is answered, and by whom: what a replier is asked, and what it gives, whoever it is (`endpoint.ChatEndpoint` is one)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal, Protocol

import msgspec

from voxrtc.chat.clauses import Clauses
from voxrtc.messages.conversation import ConversationTurn


class Said(msgspec.Struct, frozen=True):
    """A message of the conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class ToolCall(msgspec.Struct, frozen=True):
    """The assistant wants a function called."""

    id: str
    name: str
    arguments: str  # JSON, as the model wrote it


class ToolResult(msgspec.Struct, frozen=True):
    """What came of the call of this id."""

    id: str
    output: str


class Tool(msgspec.Struct, frozen=True):
    """A function that may be called; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Ask(msgspec.Struct, frozen=True):
    """Ask for the assistant's next message, after these.

    `tool_choice`: auto, none, required, or the name of a tool (`NamedTool`). Who knows no tools may ignore them.
    """

    messages: list[Said | ToolCall | ToolResult]
    tools: list[Tool] = []
    tool_choice: Literal["auto", "none", "required"] | NamedTool = "auto"
    max_tokens: int | None = None


class NamedTool(msgspec.Struct, frozen=True):
    """That function is to be called."""

    name: str


class Delta(msgspec.Struct, frozen=True):
    """The next bit of a text that is spoken while it comes."""

    text: str


class Own(msgspec.Struct, frozen=True):
    """All of an answer, in words and sound, is the model's own: to this conversation."""

    turns: tuple[ConversationTurn, ...]


Part = str | Delta | ToolCall | Own  # of an answer: words that are spoken together, or bits of them


class ReplyFailed(Exception):
    """There is no answer, or it broke off. For the person to read."""


class ReplyCut(Exception):
    """The answer reached `max_tokens`; what came of it is all there is."""


class Replier(Protocol):
    """Who answers."""

    def reply(self, ask: Ask) -> AsyncGenerator[str | ToolCall, None]:
        """The next message of the assistant, bit by bit, and whole calls. Raises `ReplyFailed`, and `ReplyCut` at the end."""


async def as_it_comes(reply: AsyncGenerator[str | ToolCall, None]) -> AsyncGenerator[Part, None]:
    """A reply for a voice that reads while it speaks, without the blanks around its text. Raises as `in_clauses`."""
    blank, begun, empty, cut = "", False, True, False
    async with aclosing(reply):
        try:
            async for part in reply:
                if isinstance(part, ToolCall):
                    blank, begun, empty = "", False, False
                    yield part
                elif text := (blank + part if begun else part.lstrip()):
                    bare = text.rstrip()
                    blank = text[len(bare) :]
                    if bare:
                        begun, empty = True, False
                        yield Delta(bare)
        except ReplyCut:
            cut = True
    if empty:
        raise ReplyFailed("The answer was without a word.")
    if cut:
        raise ReplyCut


async def in_clauses(reply: AsyncGenerator[str | ToolCall, None]) -> AsyncGenerator[Part, None]:
    """A reply whose text comes in the pieces that a voice can begin to speak, as soon as each is whole.

    Raises `ReplyFailed` when there is nothing in it, and what the reply raises.
    """
    clauses, empty, cut = Clauses(), True, False
    async with aclosing(reply):
        try:
            async for part in reply:
                for piece in clauses.add(part) if isinstance(part, str) else _after(clauses, part):
                    empty = False
                    yield piece
        except ReplyCut:
            cut = True
    if rest := clauses.rest():
        yield rest
    elif empty:
        raise ReplyFailed("The answer was without a word.")
    if cut:
        raise ReplyCut


def _after(clauses: Clauses, call: ToolCall) -> list[str | ToolCall]:
    """The words before a call are spoken before it."""
    rest = clauses.rest()
    return [rest, call] if rest else [call]
