"""Between the web and the media process."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from voxrtc.messages import Message
from voxrtc.recent import Latency


class IceServer(msgspec.Struct, frozen=True):
    """A STUN or TURN server, as `RTCIceServer` of the browsers' API. Its credential is not shown, so that no log has it."""

    urls: list[str]
    username: str = ""
    credential: str = ""

    def __repr__(self) -> str:
        return f"IceServer({', '.join(self.urls)})"


class Offer(Message):
    """A browser's SDP offer and its Realtime session settings (OpenAI's `session` object, decoded).

    `relays` are the TURN servers that our side goes through, too, where it must.
    """

    call: str
    sdp: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)
    relays: list[IceServer] = msgspec.field(default_factory=list)


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


class Spoke(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's responses in calls came to: sums since the process started, and latencies of late.

    `ttfa` is from the request for a response to its first sample sent, `turn` from the end of a person's speech to that.
    """

    responses: int
    underruns: int
    ttfa: Latency
    turn: Latency


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser says of its network, of about the last second. Shares are of what was due."""

    rtt_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None
    jitter_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None
    loss: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # share of packets
    concealed: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # share of samples that were made up
    buffer_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None  # that sound waits in the jitter buffer


class MediaStats(Message):
    """Peers that are connected and tasks of asyncio's that there are now, and sums over all peers since the process started.

    `networks` are those of connected peers that told, in no order that says whose. `playing` are the responses that are played,
    `talking` the models that conversations go on with.
    """

    call: str
    peers: int
    calls: int
    underruns: int
    tasks: int
    models: dict[str, Spoke] = msgspec.field(default_factory=dict)
    playing: list[str] = msgspec.field(default_factory=list)
    networks: list[Network] = msgspec.field(default_factory=list)
    talking: list[str] = msgspec.field(default_factory=list)


MediaRequest = Offer | Open | ClientEvent | HangUp | GetMediaStats
MediaReply = Answer | Opened | Taken | ServerEvent | Refused | HungUp | MediaStats
