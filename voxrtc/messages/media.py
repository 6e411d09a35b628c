"""Between the web and the media process."""

from __future__ import annotations

from typing import Any

import msgspec

from voxrtc.messages import Message


class Offer(Message):
    """A browser's SDP offer and its Realtime session settings (OpenAI's `session` object, decoded)."""

    call: str
    sdp: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)


class Open(Message):
    """A session over a WebSocket, which the web process holds: as an `Offer`, with everything in `ClientEvent`s."""

    call: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)


class ClientEvent(Message):
    """What the client of an open WebSocket says. The next one may be sent when this one is `Taken`."""

    call: str
    text: str


class HangUp(Message):
    """End a call. `request` names the reply: `HungUp`."""

    call: str


class GetMediaStats(Message):
    """Ask for `MediaStats`."""

    call: str


class Answer(Message):
    """The answer to an `Offer`: the call is set up."""

    call: str
    sdp: str


class Opened(Message):
    """The answer to an `Open`: the session begins. `ServerEvent`s of it may have come already."""

    call: str


class Taken(Message):
    """A `ClientEvent` was dealt with; or the call was not known (`known` False)."""

    call: str
    known: bool


class ServerEvent(Message):
    """What an open WebSocket's client is told, in order, unasked."""

    call: str
    text: str


class Refused(Message):
    """An `Offer` or `Open` that could not be taken, with the HTTP status and an error a person can act on."""

    call: str
    status: int
    code: str
    message: str


class HungUp(Message):
    """The call is over, or was not known (`known` False)."""

    call: str
    known: bool


class MediaStats(Message):
    """Peers that are connected, the models that conversations go on with and tasks of asyncio's that there are now, and sums
    over all peers since the process started."""

    call: str
    peers: int
    calls: int
    underruns: int
    tasks: int
    models: list[str] = msgspec.field(default_factory=list)


MediaRequest = Offer | Open | ClientEvent | HangUp | GetMediaStats
MediaReply = Answer | Opened | Taken | ServerEvent | Refused | HungUp | MediaStats
