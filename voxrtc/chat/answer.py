"""What a response is to put out: words that are given, or a reply to a conversation."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from voxrtc.chat import events, items
from voxrtc.chat.conversation import Conversation
from voxrtc.chat.events import EventError
from voxrtc.chat.manner import Manner
from voxrtc.chat.reply import Part, Replier, ToolCall, as_it_comes, in_clauses
from voxrtc.chat.stages import Marks

Parts = AsyncGenerator[Part, None]


def answer(
    given: list[events.Item] | None,
    session: Conversation,
    replier: Replier | None,
    manner: Manner,
    marks: Marks,
    runs: bool,
) -> Parts:
    """The answer to the session's conversation, or to the items that are `given` instead. Words of the assistant at the end of
    these are put out as they are, and so is what the user typed, where nobody can reply. `runs`: the voice takes running text.
    `marks` learn when a reply begins. Raises `EventError`."""
    conversation = conversation_of(given, session)
    if given is not None and (words := conversation.given):
        return _once(words)
    if replier:
        return _reply(replier, conversation, manner, marks, runs)
    if not (asked := conversation.asked):
        raise EventError("nothing_to_say", "There is no user message to speak: create an item with input_text.")
    return _once(asked)


def conversation_of(given: list[events.Item] | None, session: Conversation) -> Conversation:
    """What is to be answered: the session's conversation, or the items that are given instead. Raises `EventError`."""
    return session if given is None else Conversation(_given(number, item, session) for number, item in enumerate(given))


def _given(number: int, wish: events.Item, session: Conversation) -> items.Item:
    param = f"response.input[{number}]"
    if wish.type == "item_reference":
        return session.find(wish.id or "", f"{param}.id")
    item = items.read(wish, param)
    if any(not part.known.is_set() for part in items.heard(item)):
        message = "Sound in a response's input needs its transcript; or make it an item of the conversation, and refer to that."
        raise EventError("invalid_value", message, f"{param}.content")
    return item


async def _once(text: str) -> Parts:
    yield text


async def _reply(replier: Replier, conversation: Conversation, manner: Manner, marks: Marks, runs: bool) -> Parts:
    """Once all that was said is written down. Raises `ReplyFailed`, `EventError`."""
    await conversation.settled()
    if conversation.silent:
        raise EventError("nothing_to_say", "There were no words in what was said, so there is nothing to answer.")
    deltas = _marked(replier.reply(manner.ask(conversation.messages())), marks)
    spoken = as_it_comes if runs else in_clauses
    async with aclosing(deltas if manner.modality == "text" else spoken(deltas)) as parts:
        async for part in parts:
            yield part


async def _marked(reply: AsyncGenerator[str | ToolCall, None], marks: Marks) -> AsyncGenerator[str | ToolCall, None]:
    """The reply, and when its first bit came."""
    async with aclosing(reply):
        async for bit in reply:
            marks.token = marks.token or time.monotonic()
            yield bit
