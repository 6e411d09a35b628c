"""To and from the process of virtual peers."""

from __future__ import annotations

from typing import Literal

import msgspec

from voxrtc.messages import Message

PeerPhase = Literal["connecting", "resting", "waiting", "playing", "away"]


class Want(Message):
    """How many peers there are to be, and with which model they speak."""

    peers: int
    model: str


class PeerState(msgspec.Struct, frozen=True, kw_only=True):
    """One peer at the moment."""

    number: int
    phase: PeerPhase
    response: str = ""  # that it hears, or waits for
    cause: str = ""  # why it is away: the code of an error, or "call_over" or "unreachable"


class Listened(msgspec.Struct, frozen=True, kw_only=True):
    """A response that was heard to its end. Times in seconds."""

    asked: float
    ttfa: float  # from the request to the first sound that was decoded
    underruns: int  # as the server's track counted them


class Peers(Message):
    """What the peers do, and what they have heard since this was last told."""

    peers: list[PeerState]
    heard: list[Listened]
