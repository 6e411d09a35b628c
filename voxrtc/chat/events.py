"""The events of OpenAI's Realtime contract (GA) that this server understands and sends, and our own (`voxrtc.…`)."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import msgspec

from voxrtc.chat.turns import Eagerness, TurnSettings

MAX_EVENT = 1 << 16  # bytes; what our SDP answer declares as the largest message (RFC 8841)


class EventError(Exception):
    """What is wrong with a client event, for its sender: becomes an `error` event. The session lives on."""

    def __init__(self, code: str, message: str, param: str | None = None, event_id: str | None = None) -> None:
        super().__init__(message)
        self.code, self.param, self.event_id = code, param, event_id


# --- from the client -------------------------------------------------------------------------------------------------


class Voice(msgspec.Struct, frozen=True):
    """A voice by reference."""

    id: str


class AudioOutput(msgspec.Struct, frozen=True):
    voice: str | Voice | None = None


class TurnDetection(msgspec.Struct, frozen=True):
    """`server_vad`: a turn begins with speech and ends with silence. `semantic_vad`, which stock clients ask for unless told
    otherwise: how long the silence must be depends on whether the sentence seems finished, and on our `eagerness`.
    """

    type: Literal["server_vad", "semantic_vad"]
    eagerness: Eagerness = "auto"
    threshold: Annotated[float, msgspec.Meta(ge=0.2, le=1.0)] = 0.5
    prefix_padding_ms: Annotated[int, msgspec.Meta(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, msgspec.Meta(ge=100, le=10_000)] = 500
    create_response: bool = True
    interrupt_response: bool = True

    def settings(self) -> TurnSettings:
        return TurnSettings(
            threshold=self.threshold,
            prefix=self.prefix_padding_ms / 1000,
            silence=self.silence_duration_ms / 1000,
            eagerness=self.eagerness if self.type == "semantic_vad" else None,
            respond=self.create_response,
            interrupt=self.interrupt_response,
        )


class AudioInput(msgspec.Struct, frozen=True):
    """`turn_detection` null: the client commits each turn itself (push to talk)."""

    turn_detection: TurnDetection | msgspec.UnsetType | None = msgspec.UNSET


class Audio(msgspec.Struct, frozen=True):
    input: AudioInput | None = None
    output: AudioOutput | None = None


class SessionSettings(msgspec.Struct, frozen=True):
    """The part of a session object that matters here; other fields are accepted and have no effect."""

    model: str | None = None
    instructions: str | None = None
    audio: Audio | None = None

    @property
    def voice(self) -> str | None:
        return _voice(self.audio)

    def turns(self, kept: TurnSettings | None) -> TurnSettings | None:
        """How turns are detected, None for by the client; `kept` where nothing is said about it."""
        wish = self.audio.input.turn_detection if self.audio and self.audio.input else msgspec.UNSET
        if wish is msgspec.UNSET:
            return kept
        return wish.settings() if isinstance(wish, TurnDetection) else None


class Content(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    transcript: str | None = None


class Item(msgspec.Struct, frozen=True):
    """A message of the conversation. Other kinds of items have no meaning for a session that speaks given text."""

    type: str
    role: str | None = None
    content: list[Content] = []
    id: str | None = None


class ResponseSettings(msgspec.Struct, frozen=True):
    """Overrides for one response. `input` replaces the conversation; if the assistant's words end it, those are spoken."""

    audio: Audio | None = None
    conversation: str = "auto"
    input: list[Item] | None = None
    output_modalities: list[str] | None = None
    metadata: dict[str, str] | None = None

    @property
    def voice(self) -> str | None:
        return _voice(self.audio)


class ClientEvent(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    event_id: str | None = None


class SessionUpdate(ClientEvent, frozen=True, tag="session.update"):
    session: SessionSettings


class ItemCreate(ClientEvent, frozen=True, tag="conversation.item.create"):
    item: Item
    previous_item_id: str | None = None


class ResponseCreate(ClientEvent, frozen=True, tag="response.create"):
    response: ResponseSettings | None = None


class ResponseCancel(ClientEvent, frozen=True, tag="response.cancel"):
    response_id: str | None = None


class OutputClear(ClientEvent, frozen=True, tag="output_audio_buffer.clear"):
    pass


class InputCommit(ClientEvent, frozen=True, tag="input_audio_buffer.commit"):
    pass


class InputClear(ClientEvent, frozen=True, tag="input_audio_buffer.clear"):
    pass


class Ping(ClientEvent, frozen=True, tag="voxrtc.ping"):
    """`id` and `t` come back as they are, so that the client can measure the way there and back."""

    id: str | None = None
    t: float | None = None


class Pong(ClientEvent, frozen=True, tag="voxrtc.pong"):
    """The answer to our own ping; that it came is all that it says."""


AnyClientEvent = (
    SessionUpdate | ItemCreate | ResponseCreate | ResponseCancel | OutputClear | InputCommit | InputClear | Ping | Pong
)


class _Envelope(msgspec.Struct):
    type: str
    event_id: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_EVENT = msgspec.json.Decoder(AnyClientEvent)
TYPES = [kind.__struct_config__.tag for kind in AnyClientEvent.__args__]


def parse(data: str | bytes) -> AnyClientEvent:
    """The client event in a message. Raises `EventError`."""
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) > MAX_EVENT:
        raise EventError("event_too_large", f"An event may have {MAX_EVENT} bytes; this one has {len(raw)}.")
    try:
        envelope = _ENVELOPE.decode(raw)
    except msgspec.ValidationError as error:
        raise EventError("invalid_event", f"An event is an object with a string 'type': {error}.", "type") from error
    except msgspec.DecodeError as error:
        raise EventError("invalid_json", f"This is not valid JSON: {error}.") from error
    if envelope.type not in TYPES:
        message = f"Unknown event type {envelope.type[:64]!r}. Known types: {', '.join(map(str, TYPES))}."
        raise EventError("invalid_value", message, "type", envelope.event_id)
    try:
        return _EVENT.decode(raw)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise EventError("invalid_type", f"{problem}.", path.rstrip("`") or None, envelope.event_id) from error


def settings(session: dict[str, Any]) -> SessionSettings:
    """The session object of an offer. Raises `EventError`."""
    try:
        return msgspec.convert(session, SessionSettings)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise EventError("invalid_type", f"{problem}.", "session." + path.rstrip("`")) from error


def _voice(audio: Audio | None) -> str | None:
    voice = audio.output.voice if audio and audio.output else None
    return voice.id if isinstance(voice, Voice) else voice


# --- to the client ---------------------------------------------------------------------------------------------------


def new_id(kind: str) -> str:
    """A fresh id: `event_…`, `resp_…`, `item_…`, `sess_…`."""
    return f"{kind}_{uuid.uuid4().hex[:20]}"


def event(type: str, **fields: Any) -> str:
    """A server event as JSON, under an id of its own."""
    return msgspec.json.encode({"type": type, "event_id": new_id("event"), **fields}).decode()


def error(code: str, message: str, param: str | None = None, event_id: str | None = None, kind: str = "") -> str:
    """An `error` event. `event_id` is the id of the client event that caused it, if it has one."""
    body = {"type": kind or "invalid_request_error", "code": code, "message": message, "param": param, "event_id": event_id}
    return event("error", error=body)


def message_item(id: str, role: str, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    """A `realtime.item` of kind message."""
    return {"id": id, "object": "realtime.item", "type": "message", "role": role, "status": status, "content": content}
