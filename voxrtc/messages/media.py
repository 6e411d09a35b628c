"""Between the web and the media process."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from voxrtc.messages import Message
from voxrtc.messages.calls import Network, Spoke
from voxrtc.messages.engine import Reference
from voxrtc.stalls import Stood

FULL = "too_many_calls"
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]  # as far as a page counts exactly


class IceServer(msgspec.Struct, frozen=True):
    """A STUN or TURN server, as `RTCIceServer` of the browsers' API. Its credential is not shown, so that no log has it."""

    urls: list[str]
    username: str = ""
    credential: str = ""

    def __repr__(self) -> str:
        return f"IceServer({', '.join(self.urls)})"


class Resume(msgspec.Struct, frozen=True):
    """What a client that can come back says when it calls: of the session that it had, or that it begins one (no `token`)."""

    token: str = ""
    received: Count = 0  # events of the session that it got
    line: str = ""  # the last one that opened, as `voxrtc.session` named it
    heard: Count | None = None  # what of its sound reached the ear last: an RTP timestamp, or over a tunnel a packet's number


class Offer(Message):
    """A browser's SDP offer and its Realtime session settings (OpenAI's `session` object, decoded).

    `relays` are the TURN servers that our side goes through, too, where it must.
    """

    call: str
    sdp: str
    session: dict[str, Any] = msgspec.field(default_factory=dict)
    resume: Resume | None = None
    relays: list[IceServer] = msgspec.field(default_factory=list)


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


class Tell(Message):
    """A server event for a call's client, from the web process. `Told` answers."""

    call: str
    text: str


class HangUp(Message):
    """End a call. `request` names the reply: `HungUp`."""

    call: str


class Drain(Message):
    """Let every call end, once nobody is spoken to in it, in `seconds` at the latest. When all have, `Noted` answers."""

    call: str
    seconds: float


class GetMediaStats(Message):
    """Ask for `MediaStats`."""

    call: str


class KeepVoice(Message):
    """The voice of a recording may be chosen from now on, by its id: `call`. `Noted` answers."""

    call: str
    reference: Reference


class DropVoice(Message):
    """Nobody may use this voice (`call`) any longer; who does loses it. `Noted` answers."""

    call: str


class GetVoices(Message):
    """Ask for `VoicesUsed`."""

    call: str


class Transcribe(Message):
    """Have a recording written down: PCM16, mono, 16 kHz. `Transcribed` answers."""

    call: str
    pcm: bytes


class Answer(Message):
    """The answer to an `Offer`: the call is set up. `token` is for a client that may `Resume`."""

    call: str
    sdp: str
    token: str = ""


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


class Told(Message):
    """The answer to `Tell`; the call may have ended meanwhile."""

    call: str


class Noted(Message):
    """The answer to `KeepVoice`, `DropVoice` and `Drain`."""

    call: str


class VoicesUsed(Message):
    """The ids of recordings' voices that sessions have chosen."""

    call: str
    voices: list[str]


class Transcribed(Message):
    """The answer to `Transcribe`; with a `code` there is no text, and `message` says why."""

    call: str
    text: str = ""
    code: str = ""
    message: str = ""


class Over(Message):
    """A call has ended, however it did, unasked."""

    call: str


class Refused(Message):
    """An `Offer`, `Open` or `Dig` that could not be taken, with the HTTP status and an error a person can act on. The code is
    `FULL` where only a place is lacking, which another process may have."""

    call: str
    status: int
    code: str
    message: str


class HungUp(Message):
    """The call is over, or was not known (`known` False)."""

    call: str
    known: bool


class MediaStats(Message):
    """Peers that are connected and tasks of asyncio's that there are now, and sums over all peers since the process started.

    `networks` are those of connected peers that told, in no order that says whose. `playing` are the responses that are played,
    `talking` the models that conversations go on with, `stood` is how often and how long the event loop did, `kept` are
    sessions whose line broke, and whose client may come back.
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
    kept: int = 0
    stood: Stood = Stood()


MediaRequest = (
    Offer
    | Open
    | Dig
    | ClientEvent
    | ClientPacket
    | Lost
    | Tell
    | HangUp
    | Drain
    | GetMediaStats
    | KeepVoice
    | DropVoice
    | GetVoices
    | Transcribe
)
MediaReply = (
    Answer
    | Opened
    | Taken
    | ServerEvent
    | ServerPacket
    | Closed
    | Told
    | Over
    | Refused
    | HungUp
    | MediaStats
    | Noted
    | VoicesUsed
    | Transcribed
)
