"""What policies and dashboards see of the engine at one moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median

from voxrtc.engine.costs import Costs
from voxrtc.engine.door import waiting
from voxrtc.engine.scheduler import POLICIES, Machine, Policy, StreamView
from voxrtc.engine.stepping import Landed
from voxrtc.engine.stream import Piece, State, Stream
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import Stats, StepStats, StreamStats
from voxrtc.recent import STEPS, WAITS, Durations, Recent

MAX_AHEAD = 20.0  # seconds of sound made before its time
CHUNK_SECONDS, LONG_CHUNK = 0.2, 2  # of an ordinary chunk, and how many times as long a long one is
PREFILL_TOKENS = 512
LATELY = 2000  # frames over which `prompt_share` is a running mean
SECOND = 1.0  # of steps that are told


@dataclass(frozen=True)
class ChunkSizes:
    """Frames of chunks in policies of fixed sizes; 0 is `CHUNK_SECONDS`."""

    first: int = 0
    later: int = 0


DEFAULT_CHUNKS = ChunkSizes()


@dataclass
class Counters:
    """Sums since the engine was `born`."""

    born: float
    steps: int = 0
    recorded: int = 0  # of the steps
    calls: int = 0  # of the detokenizer
    frames: int = 0
    chunks: int = 0
    frames_after_cancel: int = 0
    preempted: int = 0
    paused: float = 0.0
    busy: float = 0.0  # seconds in which there was something to run
    model: float = 0.0  # of these, seconds inside the model
    prompt_share: float = 0.0  # prompt tokens run for each frame sampled, of late
    ended: dict[State, int] = field(
        default_factory=lambda: {State.DONE: 0, State.CANCELLED: 0, State.FAILED: 0, State.DISMISSED: 0}
    )
    ttfa: Recent = field(default_factory=Recent)
    first_sounds: Durations = field(default_factory=lambda: Durations(WAITS))
    step_times: Durations = field(default_factory=lambda: Durations(STEPS))
    lately: deque[tuple[Landed, float]] = field(default_factory=lambda: deque(maxlen=32))  # and the seconds expected of it

    def sounded(self, now: float, seconds: float) -> None:
        """A listener's first sound came so long after it was asked for."""
        self.ttfa.observe(now, seconds)
        self.first_sounds.observe(seconds)

    def landed(self, step: Landed, expected: float) -> None:
        """A step gave its results, for which so many seconds were expected."""
        self.lately.append((step, expected))
        self.step_times.observe(step.seconds)
        self.steps += 1
        self.recorded += step.recorded
        self.frames += step.frames
        self.model += step.forward + step.sampling
        self.prompt_share += (step.prompt_tokens - self.prompt_share * step.frames) / LATELY


def view(stream: Stream, worker: Worker, now: float) -> StreamView:
    """A stream whose prompt is ready, or that is in the engine."""
    piece, (ripe, mute) = stream.piece, _ripe(stream.piece, worker)
    return StreamView(
        id=stream.id,
        arrived=stream.received,
        admitted=piece is not None,
        pages=_pages_to_enter(stream, worker),
        evicted=stream.evicted is not None,
        position=piece.position if piece else 0,
        held=worker.cache.held(stream.slot) if piece else 0,
        prefill_left=piece.prefill_left if piece else 0,
        complete=piece.complete if piece else False,
        starved=piece.starved if piece else False,
        pending=len(piece.pending) if piece else 0,
        ripe=ripe,
        mute=mute,
        slack=stream.slack(now),
        ahead=stream.ahead(now),
        head_start=stream.head_start,
        background=stream.request.background,
    )


def _ripe(piece: Piece | None, worker: Worker) -> tuple[int, int]:
    """Of its frames, on how many the detokenizer would work now, and how many of these would make no sound."""
    if not piece:
        return 0, 0
    detokenizer, there = worker.model.detokenizer, piece.before + piece.made - piece.silent
    worked, will = detokenizer.ripe(there - len(piece.pending)), detokenizer.ripe(there)
    out = [max(0, frames - piece.before - detokenizer.lag) for frames in (worked, will)]
    return will - worked, will - worked - (out[1] - out[0])


def _pages_to_enter(stream: Stream, worker: Worker) -> int:
    """What it needs at once, and a page to go on with, lest it be the next one to be preempted."""
    if stream.evicted:
        return min(stream.evicted.pages + 1, worker.cache.pages)
    return min(worker.cache.pages_for(stream.prepared.length) + 1, worker.cache.pages) if stream.prepared else 0


def machine(
    worker: Worker, costs: Costs, prompt_share: float, detokenizer_busy: bool, sizes: ChunkSizes, caution: float
) -> Machine:
    """What the worker has room for, and what work costs it."""
    detokenizer = worker.model.detokenizer
    chunk = max(detokenizer.min_chunk, round(CHUNK_SECONDS * worker.model.frame_rate))
    return Machine(
        slots=worker.slots,
        pages=worker.cache.available,
        page_size=worker.cache.page_size,
        frame_rate=worker.model.frame_rate,
        min_chunk=detokenizer.min_chunk,
        first_chunk=sizes.first or chunk,
        chunk=sizes.later or chunk,
        long_chunk=max(LONG_CHUNK * (sizes.later or chunk), detokenizer.long_chunk),
        prefill_tokens=PREFILL_TOKENS,
        prompt_share=prompt_share,
        max_ahead=MAX_AHEAD,
        detokenizer_busy=detokenizer_busy,
        costs=costs,
        caution=caution,
    )


def stats(
    call: int,
    sums: Counters,
    costs: Costs,
    caution: float,
    streams: Collection[Stream],
    worker: Worker,
    policy: Policy,
    now: float,
) -> Stats:
    """The answer to `GetStats`."""
    return Stats(
        call=call,
        uptime=now - sums.born,
        steps=sums.steps,
        frames=sums.frames,
        chunks=sums.chunks,
        finished=sums.ended[State.DONE],
        cancelled=sums.ended[State.CANCELLED],
        failed=sums.ended[State.FAILED],
        frames_after_cancel=sums.frames_after_cancel,
        preempted=sums.preempted,
        gave_way=sums.ended[State.DISMISSED],
        paused=sums.paused,
        policy=next(name for name, each in POLICIES.items() if each is policy),
        overhead=1 - sums.model / sums.busy if sums.busy else 0.0,
        costs={name: kind.told() for name, kind in (("step", costs.step), ("depth", costs.depth), ("codec", costs.codec))},
        kv_pages_used=worker.cache.used,
        kv_pages=worker.cache.pages,
        slots=worker.slots,
        ttfa=sums.ttfa.latency(now),
        lately=_steps(sums.lately, now),
        first_sounds=sums.first_sounds.histogram,
        step_times=sums.step_times.histogram,
        waiting=waiting(streams),
        recorded=sums.recorded,
        graphs=sum(graphs.count for graphs in (worker.graphs, worker.sound.graphs) if graphs),
        codec_passes=worker.sound.graphs.runs if worker.sound.graphs else sums.calls,
        codec_recorded=worker.sound.graphs.repeats if worker.sound.graphs else 0,
        streams=[_stream(s, now) for s in streams],
        now=now,
        caution=round(caution, 3),
    )


def _stream(stream: Stream, now: float) -> StreamStats:
    return StreamStats(
        stream=stream.id,
        state=stream.state.value,
        frames=stream.frames,
        slack=stream.slack(now),
        background=stream.request.background,
    )


def _steps(lately: Collection[tuple[Landed, float]], now: float) -> StepStats:
    recent = [(step, expected) for step, expected in lately if now - step.at <= SECOND]
    if not recent:
        return StepStats()
    steps, count = [step for step, _ in recent], len(recent)
    return StepStats(
        count=count,
        streams=round(sum(step.streams for step in steps) / count, 1),
        ms=round(1000 * sum(step.seconds for step in steps) / count, 2),
        expected_ms=round(1000 * sum(expected for _, expected in recent) / count, 2),
        recorded=round(sum(step.recorded for step in steps) / count, 2),
        gap_ms=_median_ms([step.gap for step in steps if step.gap is not None]),
    )


def _median_ms(seconds: list[float]) -> float | None:
    """The middle one: a pause for want of work is no gap."""
    return round(1000 * median(seconds), 3) if seconds else None
