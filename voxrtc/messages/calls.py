"""What calls come to: how soon they were answered, and what browsers say of their networks."""

from __future__ import annotations

from typing import Annotated

import msgspec

from voxrtc.recent import Histogram, Latency


class Spoke(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's responses in calls came to: sums since the process started, and latencies of late.

    `ttfa` is from the request for a response to its first sample sent, `turn` from the end of a person's speech to that.
    """

    responses: int
    underruns: int
    ttfa: Latency
    turn: Latency
    first_sounds: Histogram = Histogram()  # the same since the start
    answers: Histogram = Histogram()


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser says of its network, of about the last second. Shares are of what was due."""

    rtt_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None
    jitter_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None
    loss: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # share of packets
    concealed: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # share of samples that were made up
    buffer_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None  # that sound waits in the jitter buffer
    target_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None  # that it is told to wait at least
