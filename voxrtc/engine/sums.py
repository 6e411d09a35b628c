"""What several replicas say of themselves, as if they were one engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from msgspec.structs import asdict, replace

from voxrtc.messages.engine import ReplicaStats, Stats, StepStats
from voxrtc.recent import Latency

SUMS = (
    "steps", "frames", "chunks", "finished", "cancelled", "failed", "frames_after_cancel", "preempted", "gave_way", "paused",
    "kv_pages_used", "kv_pages", "waiting", "slots", "graphs", "recorded",
)  # fmt: skip


def added(call: int, each: Mapping[str, Stats]) -> Stats:
    """Counters and streams of all, by the replica's name, of one at least. Costs are those of the one that has worked most."""
    everyone = list(each.values())
    fields = [asdict(stats) for stats in everyone]
    most = max(everyone, key=lambda stats: stats.steps)
    return replace(
        most,
        call=call,
        uptime=max(stats.uptime for stats in everyone),
        overhead=fmean(stats.overhead for stats in everyone),
        streams=[stream for stats in everyone for stream in stats.streams],
        ttfa=_latency([stats.ttfa for stats in everyone if stats.ttfa.count]),
        lately=_steps([stats.lately for stats in everyone if stats.lately.count]),
        replicas=[ReplicaStats(name=name, streams=len(s.streams), waiting=s.waiting) for name, s in each.items()],
        **{name: sum(each_[name] for each_ in fields) for name in SUMS},
    )


def _latency(all_: list[Latency]) -> Latency:
    """About: the middle of the middles, by how many each stands for, and of the slow the slowest."""
    if not all_:
        return Latency()
    count = sum(one.count for one in all_)
    middle = sum(one.count * (one.p50_ms or 0) for one in all_) / count
    return Latency(count, round(middle, 1), max(one.p95_ms or 0 for one in all_))


def _steps(all_: list[StepStats]) -> StepStats:
    if not all_:
        return StepStats()
    count = sum(one.count for one in all_)

    def mean(values: Iterable[float | None]) -> float:
        return round(sum(one.count * (value or 0) for one, value in zip(all_, values, strict=True)) / count, 2)

    return StepStats(
        count=count,
        streams=mean(one.streams for one in all_),
        ms=mean(one.ms for one in all_),
        expected_ms=mean(one.expected_ms for one in all_),
    )
