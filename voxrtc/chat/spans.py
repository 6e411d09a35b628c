"""A turn's way as spans of time: from the microphone through speech end, transcript, reply and engine to the track, and until
it was heard. Pure; times are `time.monotonic()`."""

from __future__ import annotations

from voxrtc.chat.stages import Marks
from voxrtc.messages.engine import Timing
from voxrtc.traces import Point, Span, engine, spans


def way(marks: Marks, timing: Timing | None, sent: float | None, over: float) -> list[Span]:
    """Of a response that was `over` then: the whole, then its stages, as far as it got. `sent` is its first sample."""
    said, token = marks.turn, marks.token
    if timing and token is not None:
        token = min(token, timing.accepted)  # as in `Marks.told`
    points: list[Point] = []
    if said:
        points += [("microphone", said.began), ("silence", said.speech_end), ("transcript", said.over)]
    points += [("reply", marks.asked), ("clause", token), *engine(timing, "track"), ("heard", sent)]
    return spans("turn", points, over)
