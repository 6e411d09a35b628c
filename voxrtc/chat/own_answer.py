"""The answer of a model that hears and answers by itself: what it is told of the conversation."""

from __future__ import annotations

from collections.abc import Callable

from voxrtc.chat import events
from voxrtc.chat.answer import Parts, conversation_of
from voxrtc.chat.conversation import Conversation
from voxrtc.chat.events import EventError
from voxrtc.chat.items import Heard, Item, Message, Spoken
from voxrtc.chat.manner import Manner
from voxrtc.chat.reply import Own
from voxrtc.messages.conversation import ConversationTurn, Replied, Words
from voxrtc.messages.conversation import Heard as Sound

Hearing = Callable[[str], str | None]  # an item's id -> the engine's for its sound, where the model has heard it


def own_answer(given: list[events.Item] | None, session: Conversation, manner: Manner, model: str, hearing: Hearing) -> Parts:
    """As `answer`, by the model itself. Raises `EventError`."""
    conversation = conversation_of(given, session)
    if given is not None and conversation.given:
        message = f"{model} answers by itself and reads no text out. Choose a text-to-speech model for that, or ask it."
        raise EventError("cannot_read_out", message, "response.input")
    if manner.modality == "text":
        message = f"{model} answers in sound, with its transcript. Please ask for output_modalities ['audio']."
        raise EventError("invalid_value", message, "response.output_modalities")
    return _answer(conversation, manner.instructions, model, hearing)


async def _answer(conversation: Conversation, instructions: str, model: str, hearing: Hearing) -> Parts:
    """At once, unless something was said that only its words can tell of. Raises `EventError`."""
    await conversation.settled(lambda id: hearing(id) is not None)
    turns = [turn for item in conversation for turn in told(item, model, hearing)]
    if not turns and not instructions:
        raise EventError("nothing_to_say", "There is nothing to answer: say something, or create an item with input_text.")
    yield Own((*([Words(role="system", text=instructions)] if instructions else []), *turns))


def told(item: Item, model: str, hearing: Hearing) -> list[ConversationTurn]:
    """An item as the model's engine takes it: sound and frames where these are the model's own, words elsewhere."""
    if not isinstance(item, Message):
        return []
    turns: list[ConversationTurn] = []
    sound = hearing(item.id)
    for part in item.content:
        if isinstance(part, Heard) and sound:
            turns.append(Sound(hearing=sound, text=part.words))
            sound = None  # all of the item's is one
        elif isinstance(part, Spoken) and part.frames and part.model == model:
            turns.append(Replied(frames=bytes(part.frames), heard=part.end))
        elif part.words:
            turns.append(Words(role=item.role, text=part.words))
    return turns
