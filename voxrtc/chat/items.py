"""The items of a conversation: what was said, by whom, and functions called. Each knows its form on the wire; `read` is the way
back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from voxrtc.chat import events
from voxrtc.chat.events import EventError
from voxrtc.chat.voiced import Voiced

Role = Literal["system", "user", "assistant"]
ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
Status = Literal["in_progress", "completed", "incomplete"]


@dataclass
class Text:
    """Typed, or written by the assistant."""

    text: str

    @property
    def words(self) -> str:
        return self.text

    def wire(self, role: Role) -> dict[str, Any]:
        return {"type": "output_text" if role == "assistant" else "input_text", "text": self.text}


@dataclass
class Heard:
    """What a person said. `transcript` comes when it is `known`; it stays None when nobody could tell."""

    transcript: str | None = None
    known: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def as_told(cls, transcript: str) -> Heard:
        heard = cls()
        heard.tell(transcript)
        return heard

    def tell(self, transcript: str | None) -> None:
        self.transcript = transcript
        self.known.set()

    @property
    def words(self) -> str:
        return self.transcript or ""

    def wire(self, role: Role) -> dict[str, Any]:
        return {"type": "input_audio", "transcript": self.transcript}


@dataclass
class Spoken:
    """What the assistant says. Where it was cut off, in seconds of its sound, the client knows best, and says it by
    truncating; else it is as far as the track has played it; None: not cut off."""

    voiced: Voiced
    played: float | None = None
    truncated: float | None = None
    model: str = ""  # which chose words and sound itself, and can be given back its `frames`
    frames: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> float | None:
        """Where it was cut off."""
        return self.played if self.truncated is None else self.truncated

    @property
    def words(self) -> str:
        """Those that were heard, or still will be."""
        return self.voiced.text if self.end is None else self.voiced.heard(self.end)

    def wire(self, role: Role) -> dict[str, Any]:
        return {"type": "output_audio", "transcript": self.words}


Part = Text | Heard | Spoken


@dataclass
class Message:
    id: str
    role: Role
    content: list[Part]
    status: Status = "completed"

    @property
    def words(self) -> str:
        return " ".join(filter(None, (part.words for part in self.content)))

    def wire(self) -> dict[str, Any]:
        content = [part.wire(self.role) for part in self.content]
        return _wire(self.id, "message", status=self.status, role=self.role, content=content)


@dataclass
class FunctionCall:
    id: str
    call_id: str
    name: str
    arguments: str
    status: Status = "completed"

    def wire(self) -> dict[str, Any]:
        fields = {"call_id": self.call_id, "name": self.name, "arguments": self.arguments}
        return _wire(self.id, "function_call", status=self.status, **fields)


@dataclass
class FunctionOutput:
    id: str
    call_id: str
    output: str
    status: Status = field(default="completed", init=False)

    def wire(self) -> dict[str, Any]:
        return _wire(self.id, "function_call_output", status=self.status, call_id=self.call_id, output=self.output)


Item = Message | FunctionCall | FunctionOutput


def heard(item: Item) -> list[Heard]:
    """The parts of it that a person said."""
    return [part for part in item.content if isinstance(part, Heard)] if isinstance(item, Message) else []


# --- as a client gives them ---


def read(wish: events.Item, param: str) -> Item:
    """The item that a client describes, at `param` in its event; it gets an id where it has none. Raises `EventError`."""
    id = wish.id or events.new_id("item")
    match wish.type:
        case "message":
            return _message(id, wish, param)
        case "function_call":
            name, arguments = _given(wish.name, f"{param}.name"), _given(wish.arguments, f"{param}.arguments")
            return FunctionCall(id, wish.call_id or events.new_id("call"), name, arguments)
        case "function_call_output":
            return FunctionOutput(id, _given(wish.call_id, f"{param}.call_id"), _given(wish.output, f"{param}.output"))
    message = "Items here are of the type message, function_call or function_call_output."
    raise EventError("invalid_value", message, f"{param}.type")


def _message(id: str, wish: events.Item, param: str) -> Message:
    if not (role := ROLES.get(wish.role or "")):
        raise EventError("invalid_value", "A message has the role user, assistant or system.", f"{param}.role")
    if not wish.content:
        raise EventError("invalid_value", "A message has content: a list of at least one part.", f"{param}.content")
    parts = [_part(role, each, f"{param}.content[{number}]") for number, each in enumerate(wish.content)]
    return Message(id, role, parts)


def _part(role: Role, content: events.Content, param: str) -> Part:
    match role, content.type:
        case ("user" | "system", "input_text") | ("assistant", "output_text"):
            return Text(_given(content.text, f"{param}.text"))
        case "user", "input_audio":
            return Heard() if content.transcript is None and content.audio is not None else _told(content, param)
        case "assistant", "output_audio":  # its sound is of no use: only its words can be told to a replier
            return Text(_given(content.transcript, f"{param}.transcript"))
    kinds = {"user": "input_text or input_audio", "assistant": "output_text or output_audio", "system": "input_text"}
    message = f"A message of the {role} has content of type {kinds[role]}, not {content.type[:32]!r}."
    raise EventError("invalid_value", message, f"{param}.type")


def _told(content: events.Content, param: str) -> Heard:
    return Heard.as_told(_given(content.transcript, f"{param}.audio"))


def _given(value: str | None, param: str) -> str:
    if value is None:
        raise EventError("missing_required_parameter", f"This needs a value for {param!r}.", param)
    return value


def _wire(id: str, type: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "object": "realtime.item", "type": type, **fields}
