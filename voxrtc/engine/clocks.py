"""The clocks of two machines: times in messages are those of one, so a router changes what it carries between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import asdict, replace

from voxrtc.messages.engine import Chunk, EngineReply, EngineRequest, Generate, Playout, Timing

LOOKS = 16  # of which the quickest counts: it was held up least

Request = TypeVar("Request", bound=EngineRequest)
Reply = TypeVar("Reply", bound=EngineReply)


@dataclass
class Offset:
    """By how many seconds another machine's clock is ahead of ours, as its answers tell (RFC 5905, section 8)."""

    _looks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LOOKS))  # how long, and the offset

    def observe(self, asked: float, there: float, answered: float) -> None:
        """Asked and answered by our clock, it was `there` by the other."""
        self._looks.append((answered - asked, there - (asked + answered) / 2))

    @property
    def seconds(self) -> float:
        """0 while nothing is known."""
        return min(self._looks)[1] if self._looks else 0.0


def to_replica(request: Request, offset: float) -> Request:
    """A request with its times as they are there."""
    if isinstance(request, Generate):
        return replace(request, accepted=request.accepted + offset)
    if isinstance(request, Playout):
        return replace(request, at=request.at + offset)
    return request


def from_replica(reply: Reply, offset: float) -> Reply:
    """A reply with its times as they are here."""
    if isinstance(reply, Chunk) and (timing := reply.timing):
        return replace(reply, timing=Timing(**{name: at - offset for name, at in asdict(timing).items()}))
    return reply
