"""What a response puts out: a message, then calls of functions, told to the client step by step and put in the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from voxrtc.chat import events
from voxrtc.chat.conversation import Conversation
from voxrtc.chat.items import FunctionCall, Item, Message, Part, Spoken, Status, Text
from voxrtc.chat.manner import Modality
from voxrtc.chat.reply import ToolCall
from voxrtc.chat.voiced import Voiced


class Outputs:
    """Of one response. `conversation` is None for one that stays out of it."""

    def __init__(
        self, send: Callable[[str], None], conversation: Conversation | None, response: str, modality: Modality
    ) -> None:
        self.voiced = Voiced()  # the message's words, as they are spoken; whoever speaks them keeps it
        self.modality = modality
        self._spoken = Spoken(self.voiced)
        self._send, self._conversation, self._response = send, conversation, response
        self._after = conversation.last if conversation is not None else ""  # what is said meanwhile comes behind
        self._items: list[Item] = []
        self._previous: list[str | None] = []  # the item before each in the conversation
        self._message: Message | None = None  # being said

    def say(self, delta: str) -> None:
        """The message goes on: words that begin to be spoken, or text."""
        message = self.begin()
        if self.modality == "text":
            text = message.content[0]
            assert isinstance(text, Text)
            text.text += delta
        kind = "output_text" if self.modality == "text" else "output_audio_transcript"
        self._tell(f"response.{kind}.delta", **self.place, delta=delta)

    def begin(self) -> Message:
        """There is a message, though it may be without a word yet."""
        return self._message or self._begin()

    def keep(self, model: str, frames: bytes) -> None:
        """What a model made of its message, for its next answers."""
        self._spoken.model = model
        self._spoken.frames += frames

    def call(self, call: ToolCall) -> None:
        """What comes after the message, if there is one."""
        self._end_message("completed")
        item = FunctionCall(events.new_id("item"), call.id, call.name, call.arguments, "in_progress")
        self._add(item, {**item.wire(), "arguments": ""})
        place = {**self._where(item), "call_id": call.id}
        self._tell("response.function_call_arguments.delta", **place, delta=call.arguments)
        self._tell("response.function_call_arguments.done", **place, name=call.name, arguments=call.arguments)
        self._done(item, "completed")

    def conclude(self, status: Status) -> None:
        """Nothing follows."""
        self._end_message(status)

    def cut(self, played: float) -> None:
        """The track has played so many seconds of the sound, and plays no more."""
        self._spoken.played = played

    @property
    def said(self) -> str | None:
        """The id of the message in the conversation, if there is one."""
        return self.message if self._conversation is not None else None

    @property
    def message(self) -> str | None:
        """The id of the message, if there is one."""
        return next((item.id for item in self._items if isinstance(item, Message)), None)

    @property
    def place(self) -> dict[str, Any]:
        """Of the message that is being said."""
        assert self._message
        return {**self._where(self._message), "content_index": 0}

    def wire(self) -> list[dict[str, Any]]:
        return [item.wire() for item in self._items]

    def _begin(self) -> Message:
        part = Text("") if self.modality == "text" else self._spoken
        self._message = message = Message(events.new_id("item"), "assistant", [part], "in_progress")
        self._add(message, {**message.wire(), "content": []})
        self._tell("response.content_part.added", **self.place, part=_part(part))
        return message

    def _end_message(self, status: Status) -> None:
        message = self._message
        if message is None:
            return
        words = message.words
        if self.modality == "text":
            self._tell("response.output_text.done", **self.place, text=words)
        else:
            self._tell("response.output_audio.done", **self.place)
            self._tell("response.output_audio_transcript.done", **self.place, transcript=words)
        self._tell("response.content_part.done", **self.place, part=_part(message.content[0]))
        self._done(message, status)
        self._message = None

    def _add(self, item: Item, body: dict[str, Any]) -> None:
        previous = None if self._conversation is None else self._conversation.follow(item, self._after)
        self._after = item.id
        self._items.append(item)
        self._previous.append(previous)
        self._tell("response.output_item.added", **self._index(item), item=body)
        if self._conversation is not None:
            self._tell("conversation.item.added", previous_item_id=previous, item=body)

    def _done(self, item: Item, status: Status) -> None:
        item.status = status
        if self._conversation is not None:
            self._tell("conversation.item.done", previous_item_id=self._previous[self._items.index(item)], item=item.wire())
        self._tell("response.output_item.done", **self._index(item), item=item.wire())

    def _index(self, item: Item) -> dict[str, Any]:
        return {"response_id": self._response, "output_index": self._items.index(item)}

    def _where(self, item: Item) -> dict[str, Any]:
        return {**self._index(item), "item_id": item.id}

    def _tell(self, type: str, **fields: Any) -> None:
        self._send(events.event(type, **fields))


def _part(part: Part) -> dict[str, Any]:
    """A part in the events about it, where its type has another name than in items."""
    return {"type": "text", "text": part.words} if isinstance(part, Text) else {"type": "audio", "transcript": part.words}
