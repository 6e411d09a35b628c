"""Policies: what runs in the next step. Pure functions over a snapshot, the same in the engine, in tests and in a simulator.

No torch, no clock, no I/O: `now` and everything else comes in, a plan goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamView:
    """What a policy may know of a stream."""

    id: str
    arrived: float
    admitted: bool  # it has a slot and pages
    pages: int  # cache pages that it needs to be admitted
    prefill_left: int  # prompt tokens still to be run; 0 once it decodes
    complete: bool  # the model has no more frames for the prompt at hand, but the detokenizer has yet to give its last
    pending: int  # frames sampled that are not turned into sound yet
    made: int  # frames sampled for the prompt at hand
    slack: float | None  # seconds of sound that the listener still has to play; None before the first


@dataclass(frozen=True)
class Machine:
    """What the machine and the model allow now."""

    slots: int  # streams at a time
    pages: int  # cache pages that are not promised to anyone
    frame_rate: float  # frames a second of sound
    lookahead: int  # frames that the detokenizer holds back
    chunk: int  # frames of a detokenizer call
    prefill_tokens: int  # prompt tokens a step, over all streams
    max_ahead: float  # seconds of sound made before its time, beyond which a stream rests
    detokenizer_busy: bool  # its thread is still at an earlier chunk


@dataclass(frozen=True)
class StepPlan:
    """One step. `admit` happens before it, `prefill` and `decode` are one batch, `detokenize` runs beside it."""

    admit: tuple[str, ...] = ()
    prefill: tuple[tuple[str, int], ...] = ()  # with the number of prompt tokens
    decode: tuple[str, ...] = ()
    detokenize: tuple[tuple[str, int], ...] = ()  # with the number of frames

    @property
    def idle(self) -> bool:
        """Nothing to do until something changes."""
        return not (self.admit or self.prefill or self.decode or self.detokenize)


Policy = Callable[[float, Sequence[StreamView], Machine], StepPlan]


def fifo(now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
    """First come, first served: admit by arrival, run everyone who can run, detokenize in chunks of fixed size."""
    queue = sorted(streams, key=lambda stream: (stream.arrived, stream.id))
    admit = _admit(queue, machine)
    inside = [stream for stream in queue if stream.admitted]
    return StepPlan(
        admit=admit,
        prefill=_prefill(inside, machine.prefill_tokens),
        decode=tuple(s.id for s in inside if not s.prefill_left and not s.complete and _ahead(s, machine) < machine.max_ahead),
        detokenize=() if machine.detokenizer_busy else _chunks(inside, machine),
    )


def _admit(queue: Sequence[StreamView], machine: Machine) -> tuple[str, ...]:
    """Who gets a slot and pages. In order: a big stream at the head is waited for, lest small ones starve it."""
    slots, pages, admitted = machine.slots - sum(stream.admitted for stream in queue), machine.pages, []
    for stream in queue:
        if stream.admitted:
            continue
        if slots < 1 or pages < stream.pages:
            break
        slots, pages = slots - 1, pages - stream.pages
        admitted.append(stream.id)
    return tuple(admitted)


def _prefill(inside: Sequence[StreamView], budget: int) -> tuple[tuple[str, int], ...]:
    """Prompts of the step, the last one cut where the budget of tokens ends."""
    parts = []
    for stream in inside:
        if take := min(stream.prefill_left, budget):
            parts.append((stream.id, take))
            budget -= take
    return tuple(parts)


def _chunks(inside: Sequence[StreamView], machine: Machine) -> tuple[tuple[str, int], ...]:
    """Streams that have a chunk's worth of frames. The last one also when it is empty: it gives out the lookahead."""
    return tuple((s.id, s.pending) for s in inside if s.complete or (s.pending and s.pending >= _due(s, machine)))


def _ahead(stream: StreamView, machine: Machine) -> float:
    """Seconds of sound made but not played."""
    return (stream.slack or 0.0) + stream.pending / machine.frame_rate


def _due(stream: StreamView, machine: Machine) -> int:
    """Pending frames that make up the stream's next chunk. A prompt's first one also fills the detokenizer's lookahead.

    The first chunk is no smaller than the next: it must last until that one is made, also when the machine is busy.
    """
    return machine.chunk + (machine.lookahead if stream.pending == stream.made else 0)
