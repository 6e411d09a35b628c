"""The events of OpenAI's Realtime contract (GA) that this server understands and sends, and our own (`voxrtc.…`)."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import msgspec

from voxrtc.chat.session_settings import ReplySettings, SessionSettings
from voxrtc.messages.calls import Network

MAX_EVENT = 1 << 16  # bytes; what our SDP answer declares as the largest message (RFC 8841)


class EventError(Exception):
    """What is wrong with a client event, for its sender: becomes an `error` event. The session lives on."""

    def __init__(self, code: str, message: str, param: str | None = None, event_id: str | None = None) -> None:
        super().__init__(message)
        self.code, self.param, self.event_id = code, param, event_id


# --- from the client -------------------------------------------------------------------------------------------------


Text = Annotated[str, msgspec.Meta(max_length=32_768)]  # three quarters of an hour of speech
Parts = msgspec.Meta(max_length=64)


class Content(msgspec.Struct, frozen=True):
    type: str
    text: Text | None = None
    audio: str | None = None
    transcript: Text | None = None


class Item(msgspec.Struct, frozen=True):
    """Any item; `items.read` knows what belongs to which type."""

    type: str
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    role: str | None = None
    content: Annotated[list[Content], Parts] = []
    call_id: Annotated[str, msgspec.Meta(max_length=4096)] | None = None  # some chat endpoints put more than a number into it
    name: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    arguments: Text | None = None
    output: Text | None = None


class ResponseSettings(ReplySettings, frozen=True):
    """Overrides for one response. `input` replaces the conversation; if the assistant's words end it, those are spoken."""

    conversation: Literal["auto", "none"] = "auto"
    input: Annotated[list[Item], msgspec.Meta(max_length=256)] | None = None
    metadata: dict[str, str] | None = None


class ClientEvent(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    event_id: str | None = None


class SessionUpdate(ClientEvent, frozen=True, tag="session.update"):
    session: SessionSettings


class ItemCreate(ClientEvent, frozen=True, tag="conversation.item.create"):
    item: Item
    previous_item_id: str | None = None


class ItemRetrieve(ClientEvent, frozen=True, tag="conversation.item.retrieve"):
    item_id: str


class ItemTruncate(ClientEvent, frozen=True, tag="conversation.item.truncate"):
    item_id: str
    content_index: int
    audio_end_ms: Annotated[int, msgspec.Meta(ge=0)]


class ItemDelete(ClientEvent, frozen=True, tag="conversation.item.delete"):
    item_id: str


class ResponseCreate(ClientEvent, frozen=True, tag="response.create"):
    response: ResponseSettings | None = None


class ResponseCancel(ClientEvent, frozen=True, tag="response.cancel"):
    response_id: str | None = None


class OutputClear(ClientEvent, frozen=True, tag="output_audio_buffer.clear"):
    pass


class InputAppend(ClientEvent, frozen=True, tag="input_audio_buffer.append"):
    audio: str


class InputCommit(ClientEvent, frozen=True, tag="input_audio_buffer.commit"):
    pass


class InputClear(ClientEvent, frozen=True, tag="input_audio_buffer.clear"):
    pass


class Ping(ClientEvent, frozen=True, tag="voxrtc.ping"):
    """`id` and `t` come back as they are, with our clock, so that the client can measure the way there and back, and how far
    its clock is from ours."""

    id: str | None = None
    t: float | None = None


class Measured(ClientEvent, frozen=True, tag="voxrtc.network"):
    """How the client's network does: `network` has the fields of `messages.media.Network`."""

    network: Network


class Pong(ClientEvent, frozen=True, tag="voxrtc.pong"):
    """The answer to our own ping; that it came is all that it says."""


AnyClientEvent = (
    SessionUpdate
    | ItemCreate
    | ItemRetrieve
    | ItemTruncate
    | ItemDelete
    | ResponseCreate
    | ResponseCancel
    | InputAppend
    | InputCommit
    | InputClear
    | OutputClear
    | Ping
    | Pong
    | Measured
)


class _Envelope(msgspec.Struct):
    type: str
    event_id: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_EVENT = msgspec.json.Decoder(AnyClientEvent)
TYPES = [kind.__struct_config__.tag for kind in AnyClientEvent.__args__]


def parse(data: str | bytes, most: int = MAX_EVENT) -> AnyClientEvent:
    """The client event in a message of at most so many bytes. Raises `EventError`."""
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data  # what is no UTF-8 is no JSON either
    if len(raw) > most:
        raise EventError("event_too_large", f"An event may have {most} bytes; this one has {len(raw)}.")
    try:
        envelope = _ENVELOPE.decode(raw)
    except msgspec.ValidationError as error:
        raise EventError("invalid_event", f"An event is an object with a string 'type': {error}.", "type") from error
    except msgspec.DecodeError as error:
        raise EventError("invalid_json", f"This is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise EventError("invalid_json", "This JSON is nested too deep.") from error
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
