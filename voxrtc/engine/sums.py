"""What several replicas say of themselves, as if they were one engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from msgspec.structs import asdict, replace

from voxrtc.messages.engine import ReplicaStats, Stats, StepStats
from voxrtc.recent import Histogram, Latency

GROWING = (
    "steps", "frames", "chunks", "finished", "cancelled", "failed", "frames_after_cancel", "preempted", "gave_way", "paused",
    "recorded", "codec_passes", "codec_recorded",
)  # fmt: skip
SUMS = (*GROWING, "kv_pages_used", "kv_pages", "waiting", "slots", "graphs")


def counted(before: Stats | None, last: Stats) -> Stats:
    """A replica's last word, with what those before it had counted when they ended: of use for that alone."""
    if before is None:
        return last
    fields, more = asdict(before), asdict(last)
    return replace(
        last,
        first_sounds=before.first_sounds + last.first_sounds,
        step_times=before.step_times + last.step_times,
        **{name: fields[name] + more[name] for name in GROWING},
    )


def added(call: int, each: Mapping[str, Stats], past: Stats | None = None) -> Stats:
    """Counters and streams of all, by the replica's name, of one at least, and what the `past` ones had `counted`. Costs are
    those of the one that has worked most."""
    everyone = list(each.values())
    fields = [asdict(stats) for stats in everyone]
    most = max(everyone, key=lambda stats: stats.steps)
    all_ = replace(
        most,
        call=call,
        uptime=max(stats.uptime for stats in everyone),
        overhead=fmean(stats.overhead for stats in everyone),
        streams=[replace(stream, replica=name) for name, stats in each.items() for stream in stats.streams],
        caution=max(stats.caution for stats in everyone),
        ttfa=sum((stats.ttfa for stats in everyone), Latency()),
        lately=_steps([stats.lately for stats in everyone if stats.lately.count]),
        replicas=[ReplicaStats(name=name, streams=len(s.streams), waiting=s.waiting) for name, s in each.items()],
        first_sounds=sum((stats.first_sounds for stats in everyone), Histogram()),
        step_times=sum((stats.step_times for stats in everyone), Histogram()),
        **{name: sum(each_[name] for each_ in fields) for name in SUMS},
    )
    return counted(past, all_)


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
        recorded=mean(one.recorded for one in all_),
        gap_ms=mean(one.gap_ms for one in all_),
    )
