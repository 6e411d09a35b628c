"""Which of several replicas of a model takes a stream. Pure: the live router and the simulator run the same.

Replicas do not steal from each other: a stream stays where it began, with its cache, its voice and its detokenizer's state.
So what counts is where a newcomer will most probably stay viable, which is where the largest part of the capacity is free.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from voxrtc.messages.engine import CostStats

NEAR = 0.8  # of its capacity, up to which a replica that has a stream's voice at hand goes before others
CALLS = 2  # of the detokenizer that a stream takes in a second, about
MANY = 1000  # streams that nothing known forbids


@dataclass(frozen=True)
class Replica:
    """What is known of a replica that takes streams."""

    name: str
    streams: int  # that it has, or was given a moment ago
    capacity: int  # streams that it keeps viable, about
    near: bool = False  # it has what the stream needs at hand: the voice that was made of a recording

    @property
    def load(self) -> float:
        """Its share of the capacity that is taken once one more stream is there."""
        return (self.streams + 1) / self.capacity


def choose(replicas: Collection[Replica]) -> str:
    """Who takes one more stream, of at least one."""
    near = [replica for replica in replicas if replica.near and replica.load <= NEAR]
    return min(near or replicas, key=lambda replica: (replica.load, replica.streams, replica.name)).name


def capacity(costs: Mapping[str, CostStats], frame_rate: float, slots: int) -> int:
    """Streams that an engine keeps viable, by what it learned of its work (`Stats.costs`), 1 at least.

    In a frame's time it must do a step of all of them, and in a second make a second of sound for each. `slots` while nothing
    was learned.
    """
    most = slots or MANY
    if not costs or not all(costs[kind].observed for kind in ("step", "codec")):
        return most
    step, depth, codec = costs["step"], costs["depth"], costs["codec"]
    by_model = _room(1e3 / frame_rate - step.call_ms - depth.call_ms, step.each_ms["stream"] + depth.each_ms["stream"])
    a_second = CALLS * codec.each_ms["stream"] + frame_rate * codec.each_ms["frame"]
    by_codec = _room(1e3 - CALLS * codec.call_ms, a_second)
    return max(1, math.floor(min(most, by_model, by_codec)))


def _room(left: float, each: float) -> float:
    return MANY if each <= 0 else left / each
