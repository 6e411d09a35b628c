"""Policies: what runs in the next step. Pure functions over a snapshot, the same in the engine, in tests and in the simulator.

No torch, no clock, no I/O: `now` and everything else comes in, a plan goes out. `fifo` is what most servers do, `two_phase`
the VoxServe paper's (arXiv 2602.00269, section 4), `playout` ours, `offline` for throughput alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from voxrtc.engine.costs import Costs
from voxrtc.messages.engine import PolicyName


@dataclass(frozen=True)
class StreamView:
    """What a policy may know of a stream."""

    id: str
    arrived: float
    admitted: bool  # it has a slot and pages
    pages: int  # cache pages that it needs to be admitted, or to come back
    prefill_left: int  # prompt tokens still to be run; 0 once it decodes
    complete: bool  # the model has no more frames for the prompt at hand, but the detokenizer has yet to give its last
    pending: int  # frames sampled that are not turned into sound yet
    slack: float | None  # seconds of sound that the listener still has to play; None before the first
    evicted: bool = False  # preempted: it has its slot and can make sound of its pending frames, but its pages are elsewhere
    starved: bool = False  # it has said all of its text that is there, and waits for more
    ripe: int = 0  # frames on which the detokenizer would work if it were called now
    mute: int = 0  # of these, frames that would make no sound yet, or never
    position: int = 0  # tokens in the cache
    held: int = 0  # cache pages
    ahead: float = 0.0  # of the slack, seconds that an interruption would waste; fewer for a listener that keeps what it gets
    head_start: float = 0.0  # seconds by which it goes before others; infinite for one that already speaks
    background: bool = False  # nobody listens: it gives way to all streams that are listened to

    @property
    def fresh(self) -> int:
        """Frames of sound that a call of the detokenizer would give."""
        return self.ripe - self.mute


@dataclass(frozen=True)
class Machine:
    """What the machine and the model allow now, and what work costs there."""

    slots: int  # streams at a time
    pages: int  # cache pages that nobody holds
    frame_rate: float  # frames a second of sound
    min_chunk: int  # frames worth a detokenizer call
    first_chunk: int  # frames of a stream's first call, in policies of fixed sizes
    chunk: int  # frames of an ordinary call
    long_chunk: int  # frames of one that a stream with plenty of slack waits for
    prefill_tokens: int  # prompt tokens a step, over all streams
    max_ahead: float  # seconds of sound made before its time, beyond which a stream rests
    detokenizer_busy: bool  # its thread is still at an earlier chunk
    prompt_share: float = 0.0  # prompt tokens that are run for each frame, on the average
    page_size: int = 1 << 30  # positions
    caution: float = 1.0  # by how much more than its costs say the machine is planned for: `engine.caution`
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True)
class StepPlan:
    """One step. The first three happen before it, `prefill` and `decode` are one batch, `detokenize` runs beside it."""

    dismiss: tuple[str, ...] = ()  # end, since a listener needs the place
    preempt: tuple[str, ...] = ()  # give up their pages
    admit: tuple[str, ...] = ()  # get a slot, or come back
    prefill: tuple[tuple[str, int], ...] = ()  # with the number of prompt tokens
    decode: tuple[str, ...] = ()
    detokenize: tuple[tuple[str, int], ...] = ()  # with the number of frames
    paused: bool = False  # background streams have no part in it, for a listener's sake
    reserve: float = 0.0  # seconds that `detokenize` may take from when it is wanted; 0: the policy keeps none

    @property
    def idle(self) -> bool:
        """Nothing to do until something changes."""
        return not (self.dismiss or self.admit or self.prefill or self.decode or self.detokenize)


Policy = Callable[[float, Sequence[StreamView], Machine], StepPlan]

BUDGET = 0.4  # seconds from arrival within which a listener should have first sound
MARGIN = 1.3  # by how much a first chunk outlasts the predicted wait for the next one
WORDS = 0.25  # seconds that a stream which waits for text begins with
LOAD = 0.97  # of the machine's time that admitted streams may need


def fifo(now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
    """First come, first served: admit by arrival, run everyone who can run, detokenize in chunks of fixed size."""
    queue = _by_arrival(streams)
    inside = [stream for stream in queue if stream.admitted]
    chunks = [] if machine.detokenizer_busy else [s for s in inside if s.complete or _ready(s, machine)]
    return _plan(queue, inside, chunks, machine)


def two_phase(now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
    """The paper's: urgent until the first chunk, afterwards within a second of the end of what was handed over.

    Prefill, then the urgent, then the rest. The detokenizer works only when somebody urgent is ready, filled up with others.
    """

    def urgent(stream: StreamView) -> bool:
        return stream.slack is None or stream.slack - machine.chunk / machine.frame_rate < 1.0

    queue = _by_arrival(streams)
    inside = sorted((s for s in queue if s.admitted), key=lambda s: (not s.prefill_left, not urgent(s)))
    ready = [] if machine.detokenizer_busy else [s for s in inside if s.complete or _ready(s, machine)]
    chunks = sorted(ready, key=lambda s: not urgent(s)) if any(urgent(s) for s in ready) else []
    return _plan(queue, inside, chunks, machine)


def offline(now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
    """Throughput alone: full batches, sound made when a text is spoken to its end."""
    queue = _by_arrival(streams)
    inside = [stream for stream in queue if stream.admitted]
    chunks = [] if machine.detokenizer_busy else [s for s in inside if s.complete]
    return _plan(queue, inside, chunks, machine, rest=False)


def playout(now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
    """Ours: the listener's playout clock decides, since it is known and not guessed.

    Every batch is as full as can be, since frames made early are kept and small batches are not cheap. The detokenizer goes
    by least slack. A first chunk waits until it will last until the next (`_starts`), later ones are sized by slack (`_due`).
    Who cannot be served in time is held at the door (`_viable`).
    """
    queue = _by_arrival(streams)
    inside = sorted((s for s in queue if s.admitted), key=lambda s: _deadline(now, s, machine))
    chunks: list[StreamView] = []
    reserve = 0.0
    if not machine.detokenizer_busy:
        load = _load(inside, machine)
        chunks = _most_urgent(now, [s for s in inside if _due(now, s, load, machine)], load, machine)
        reserve = load.reserve if chunks and _keeps_pace(load.active, machine) else 0.0
    return replace(_plan(queue, inside, chunks, machine, admit=_viable(queue, inside, machine)), reserve=reserve)


POLICIES: dict[PolicyName, Policy] = {"fifo": fifo, "two_phase": two_phase, "playout": playout, "offline": offline}


# --- what all policies share -----------------------------------------------------------------------------------------


def turn(arrived: float, head_start: float, id: str) -> tuple[float, float, str]:
    """The order at the door: as they came, but for their head starts."""
    return arrived - head_start, arrived, id


def _by_arrival(streams: Iterable[StreamView]) -> list[StreamView]:
    return sorted(streams, key=lambda stream: turn(stream.arrived, stream.head_start, stream.id))


def _plan(
    queue: Sequence[StreamView],
    inside: Sequence[StreamView],
    chunks: Iterable[StreamView],
    machine: Machine,
    rest: bool = True,
    admit: int | None = None,
) -> StepPlan:
    """The plan that admits from `queue` (at most `admit`), runs all of `inside` in its order, and makes sound of `chunks`."""
    parts = _prefill(inside, machine.prefill_tokens)
    parts |= {s.id: 1 for s in inside if _runs(s, machine) or (not rest and _could_run(s))}
    preempt, pages = _preempt(inside, parts, machine)
    prefilling = {s.id for s in inside if s.prefill_left}
    return StepPlan(
        preempt=preempt,
        admit=() if preempt else _admit(queue, machine, pages, admit),
        prefill=tuple((name, count) for name, count in parts.items() if name in prefilling),
        decode=tuple(name for name in parts if name not in prefilling),
        detokenize=tuple((s.id, s.pending) for s in chunks),
    )


def _preempt(inside: Sequence[StreamView], parts: dict[str, int], machine: Machine) -> tuple[tuple[str, ...], int]:
    """Who gives up pages so that the others have theirs in this step, and the pages that are left. Removes them from `parts`.

    Most slack first, since that stream can wait longest; before the first sound the latest to come.
    """

    def growth(stream: StreamView) -> int:
        count = parts.get(stream.id, 0)
        return max(0, -(-(stream.position + count) // machine.page_size) - stream.held) if count else 0

    takers = [s for s in inside if s.held or growth(s)]
    takers.sort(key=lambda s: (-1.0 if s.slack is None else s.slack, s.arrived, s.id))
    left, preempted = machine.pages - sum(growth(s) for s in takers), []
    while left < 0 and takers:
        victim = takers.pop()
        left += growth(victim) + victim.held
        parts.pop(victim.id, None)
        if victim.held:
            preempted.append(victim.id)
    return tuple(preempted), left


def _admit(queue: Sequence[StreamView], machine: Machine, pages: int, most: int | None) -> tuple[str, ...]:
    """Who gets a slot and pages. In order: a big stream at the head is waited for, lest small ones starve it."""
    slots = machine.slots - sum(stream.admitted for stream in queue)
    admitted: list[str] = []
    for stream in queue:
        back = stream.evicted and not (stream.complete or stream.starved)
        if stream.admitted and not back:
            continue
        if pages < stream.pages or (not back and (slots < 1 or most == 0)):
            break
        pages -= stream.pages
        if not back:
            slots, most = slots - 1, None if most is None else most - 1
        admitted.append(stream.id)
    return tuple(admitted)


def _prefill(inside: Sequence[StreamView], budget: int) -> dict[str, int]:
    """Prompt tokens of the step by stream, the last one's cut where the budget ends."""
    parts = {}
    for stream in inside:
        if not stream.evicted and (take := min(stream.prefill_left, budget)):
            parts[stream.id] = take
            budget -= take
    return parts


def _runs(stream: StreamView, machine: Machine) -> bool:
    """It has a frame to make, and is not so far ahead that an interruption would throw much away."""
    return _could_run(stream) and stream.ahead + stream.pending / machine.frame_rate < machine.max_ahead


def _could_run(stream: StreamView) -> bool:
    """It has a frame to make."""
    return stream.admitted and not (stream.evicted or stream.prefill_left or stream.complete or stream.starved)


def _ready(stream: StreamView, machine: Machine) -> bool:
    """It has a chunk of the fixed sizes."""
    size = machine.first_chunk if stream.slack is None else machine.chunk
    return stream.pending > 0 and stream.fresh > 0 and stream.ripe >= size


# --- playout ---------------------------------------------------------------------------------------------------------


def _deadline(now: float, stream: StreamView, machine: Machine) -> tuple[float, float, str]:
    """Seconds until its listener misses something: the next sound, or the first within its budget. Ties by arrival."""
    left = stream.arrived + BUDGET - now if stream.slack is None else stream.slack
    return left, stream.arrived, stream.id


@dataclass(frozen=True)
class _Load:
    """What a step and the detokenizer's service to everyone take at present; the same for all streams of a snapshot."""

    active: int  # streams in a step, at least one
    step: float  # seconds of one with everyone who runs
    reserve: float  # seconds that a chunk may take from when it is wanted
    sustainable: int  # frames: the smallest chunk with which the detokenizer keeps up


def _load(inside: Sequence[StreamView], machine: Machine) -> _Load:
    """The reserve is a call that serves everyone, after one that is under way, both begun at the end of a step."""
    active = max(1, _active(inside, machine))
    step = _step_seconds(active, machine)
    streams = max(1, sum(not s.prefill_left for s in inside))
    call = machine.costs.codec_seconds(streams, streams * machine.min_chunk)
    return _Load(active, step, call + 2 * step, _sustainable(streams, machine))


def _active(inside: Sequence[StreamView], machine: Machine) -> int:
    """Streams in a step, with those that will be back in one."""
    return sum(s.prefill_left > 0 or s.evicted or _runs(s, machine) for s in inside)


def _step_seconds(streams: int, machine: Machine) -> float:
    """A step of so many streams, with the share of prompts that comes with them."""
    return machine.costs.step_seconds(streams, machine.prompt_share * streams)


def _sustainable(streams: int, machine: Machine) -> int:
    """The smallest chunk, up to the ordinary one, with which the detokenizer needs at most `LOAD` of its time for everyone."""
    size = machine.min_chunk
    while size < machine.chunk and machine.costs.codec_seconds(streams, streams * size) > LOAD * size / machine.frame_rate:
        size += 1
    return size


def _due(now: float, stream: StreamView, load: _Load, machine: Machine) -> bool:
    """Its chunk should be made now."""
    if stream.complete:
        return True
    if stream.pending == 0 or stream.fresh <= 0 or stream.ripe < machine.min_chunk:
        return False
    if stream.slack is None:
        return _starts(now, stream, load, machine)
    return stream.ripe >= _size(stream.slack, load, machine)


def _starts(now: float, stream: StreamView, load: _Load, machine: Machine) -> bool:
    """Start gating: the first chunk goes out when it lasts until the next small one, with a margin.

    Of one that waits for its text nobody knows when that is: it begins with what lasts for a word or two. The margin is given
    up only to stay within the budget; who waited for longer than that at the door is to start well.
    """
    if stream.starved and stream.fresh < WORDS * machine.frame_rate:
        return False
    wait, waited = machine.min_chunk * load.step + load.reserve, now - stream.arrived
    hurry = waited < BUDGET <= waited + wait
    return stream.fresh / machine.frame_rate >= (1.0 if hurry else MARGIN) * machine.caution * wait


def _size(slack: float, load: _Load, machine: Machine) -> int:
    """Frames to wait for: by slack, between what the detokenizer can keep up with and what is efficient.

    Waiting for them may use half of the slack. Not less than can be sustained: shrinking chunks when all are late would
    only make everyone later.
    """
    wanted = int(0.5 * max(0.0, slack - load.reserve) / load.step)
    return max(load.sustainable, min(wanted, machine.long_chunk))


def _most_urgent(now: float, due: Sequence[StreamView], load: _Load, machine: Machine) -> list[StreamView]:
    """Of the streams that are due (least time first), as many as one call should serve.

    It should end before the first of them runs dry, but need not end before the step beside it: only then can the next begin.
    """
    chosen: list[StreamView] = []
    frames = 0
    for stream in due:
        seconds = machine.costs.codec_seconds(len(chosen) + 1, frames + stream.pending)
        if chosen and seconds > max(0.5 * _deadline(now, chosen[0], machine)[0], load.step):
            break
        chosen.append(stream)
        frames += stream.pending
    return chosen


def _viable(queue: Sequence[StreamView], inside: Sequence[StreamView], machine: Machine) -> int:
    """How many more streams may enter such that all are served in time: model and detokenizer keep pace with playing.

    One that waits for its text goes on at any moment, so it counts. Who already speaks was promised that, and gets in for its
    next piece whatever costs look like now.
    """
    waiting = len(queue) - len(inside)
    active, more = _active(inside, machine) + sum(s.starved and not s.evicted for s in inside), 0
    while more < waiting and _keeps_pace(active + more + 1, machine):
        more += 1
    promised = sum(not s.admitted and s.head_start == math.inf for s in queue)
    return max(more, promised, 0 if inside else 1)  # a machine too slow for one still serves one


def _keeps_pace(streams: int, machine: Machine) -> bool:
    frame = 1 / machine.frame_rate
    codec = machine.costs.codec_seconds(streams, streams * machine.chunk)
    load = LOAD / machine.caution
    return _step_seconds(streams, machine) <= load * frame and codec <= load * machine.chunk * frame
