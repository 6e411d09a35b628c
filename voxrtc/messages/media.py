"""Between the web and the media process."""

from __future__ import annotations

from typing import Any

import msgspec

from voxrtc.messages import Message


class Resume(msgspec.Struct, frozen=True):
    """What a client that can come back says when it calls: of the session that it had, or that it begins one (no `token`)."""

    token: str = ""
    received: int = 0  # events of the session that it got
    heard: int | None = None  # what of the sound reached the ear last: an RTP timestamp, or over a tunnel a packet's number


class Offer(Message):
    """A browser's SDP offer and its Realtime session settings (OpenAI's `session` object, decoded)."""

    call: str
    sdp: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)
    resume: Resume | None = None


class Dig(Message):
    """A tunnel: a call whose sound and events go through a WebSocket, which the web process holds. `Opened` answers."""

    call: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)
    resume: Resume | None = None


class Open(Message):
    """A session over a WebSocket, which the web process holds: as an `Offer`, with everything in `ClientEvent`s."""

    call: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)


class ClientEvent(Message):
    """What the client of an open WebSocket says. The next one may be sent when this one is `Taken`."""

    call: str
    text: str


class ClientPacket(Message):
    """A binary message (`rtc.tunnel`) of a tunnel's client. Nothing answers."""

    call: str
    data: bytes


class Lost(Message):
    """A tunnel's WebSocket is gone, without a word; its client may come back. Nothing answers."""

    call: str


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


class ServerPacket(Message):
    """A binary message (`rtc.tunnel`) for a tunnel's client, in order with its `ServerEvent`s, unasked."""

    call: str
    data: bytes


class Closed(Message):
    """A tunnel is over, unasked: its client has another line, or said nothing for too long."""

    call: str


class Refused(Message):
    """An `Offer`, `Open` or `Dig` that could not be taken, with the HTTP status and an error a person can act on."""

    call: str
    status: int
    code: str
    message: str


class HungUp(Message):
    """The call is over, or was not known (`known` False)."""

    call: str
    known: bool


class MediaStats(Message):
    """Peers that are connected and tasks of asyncio's that there are now, and sums over all peers since the process started."""

    call: str
    peers: int
    calls: int
    underruns: int
    tasks: int


MediaRequest = Offer | Open | Dig | ClientEvent | ClientPacket | Lost | HangUp | GetMediaStats
MediaReply = Answer | Opened | Taken | ServerEvent | ServerPacket | Closed | Refused | HungUp | MediaStats
