"""What policies and dashboards see of the engine at one moment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from voxrtc.engine.costs import Costs
from voxrtc.engine.door import waiting
from voxrtc.engine.scheduler import Machine, StreamView
from voxrtc.engine.stream import State, Stream
from voxrtc.engine.worker import Worker
from voxrtc.messages import Stats, StreamStats

MAX_AHEAD = 20.0  # seconds of sound made before its time
CHUNK_SECONDS = 0.2
PREFILL_TOKENS = 512


@dataclass
class Counters:
    """Sums since the engine was `born`."""

    born: float
    steps: int = 0
    frames: int = 0
    chunks: int = 0
    frames_after_cancel: int = 0
    ended: dict[State, int] = field(default_factory=lambda: {State.DONE: 0, State.CANCELLED: 0, State.FAILED: 0})


def view(stream: Stream, worker: Worker, now: float) -> StreamView:
    """A stream whose prompt is ready, or that is in the engine."""
    piece, prompt = stream.piece, stream.prepared
    return StreamView(
        id=stream.id,
        arrived=stream.received,
        admitted=piece is not None,
        pages=worker.pages_for(prompt) if prompt else 0,
        prefill_left=piece.prefill_left if piece else 0,
        complete=piece.complete if piece else False,
        pending=len(piece.pending) if piece else 0,
        made=piece.made if piece else 0,
        slack=stream.slack(now),
        ahead=stream.ahead(now),
        head_start=stream.head_start,
    )


def machine(worker: Worker, costs: Costs, detokenizer_busy: bool) -> Machine:
    """What the worker has room for, and what work costs it."""
    detokenizer = worker.model.detokenizer
    chunk = max(detokenizer.min_chunk, round(CHUNK_SECONDS * worker.model.frame_rate))
    return Machine(
        slots=worker.slots,
        pages=worker.cache.available,
        frame_rate=worker.model.frame_rate,
        lookahead=detokenizer.lookahead,
        min_chunk=detokenizer.min_chunk,
        first_chunk=chunk,
        chunk=chunk,
        prefill_tokens=PREFILL_TOKENS,
        max_ahead=MAX_AHEAD,
        detokenizer_busy=detokenizer_busy,
        costs=costs,
    )


def stats(call: int, sums: Counters, streams: Collection[Stream], worker: Worker, now: float) -> Stats:
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
        kv_pages_used=worker.cache.used,
        kv_pages=worker.cache.pages,
        waiting=waiting(streams),
        streams=[StreamStats(stream=s.id, state=s.state.value, frames=s.frames, slack=s.slack(now)) for s in streams],
    )
