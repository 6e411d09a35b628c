"""A turn's way as spans of time: from the microphone through speech end, transcript, reply and engine to the track, and until
it was heard. Pure; times are `time.monotonic()`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from voxrtc.chat.stages import Marks
from voxrtc.messages.engine import Timing


@dataclass(frozen=True)
class Span:
    name: str
    begin: float
    end: float


def way(marks: Marks, timing: Timing | None, sent: float | None, over: float) -> list[Span]:
    """Of a response that was `over` then: the whole, then its stages, as far as it got. `sent` is its first sample."""
    said, token = marks.turn, marks.token
    if timing and token is not None:
        token = min(token, timing.accepted)  # as in `Marks.told`
    points: list[tuple[str, float | None]] = []
    if said:
        points += [("microphone", said.began), ("silence", said.speech_end), ("transcript", said.over)]
    points += [("reply", marks.asked), ("clause", token)]
    if timing:
        points += [("engine", timing.accepted), ("prompt", timing.received), ("queue", timing.prompt_ready)]
        points += [("first_frame", timing.first_step), ("first_chunk", timing.first_frame), ("track", timing.first_chunk)]
    points += [("heard", sent), ("", over)]
    begins = [(name, at) for name, at in points if at is not None]
    stages = [Span(name, begin, max(begin, end)) for (name, begin), (_, end) in pairwise(begins)]
    return [Span("turn", begins[0][1], over), *stages]
