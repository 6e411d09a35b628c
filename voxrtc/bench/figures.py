"""The figures of a run: what its listeners heard, and what that took of the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from voxrtc.bench.load import passed
from voxrtc.crowd.hearing import Hearing
from voxrtc.crowd.player import on_time, replay
from voxrtc.recent import quantile


@dataclass(frozen=True)
class Usage:
    """What a system's process has used so far, and holds."""

    cpu: float  # seconds
    rss: float  # MB
    others: float  # CPU seconds of everything on the machine but this process and the bench
    overhead: float | None  # share of its busy time so far that the engine's thread spent outside the model
    recorded: float | None = None  # share of its steps so far that CUDA graphs repeated
    codec_recorded: float | None = None  # and of its detokenizer's passes
    step_gap: float | None = None  # seconds between two steps in the last second, typically


@dataclass(frozen=True)
class Figures:
    """One run. Times in seconds unless the name says otherwise; shares are of the streams that got any sound."""

    rate: float  # arrivals a second
    passed: bool  # all served within goodput's terms
    requests: int
    refused: int
    errors: int
    unserved: int  # cut short: at the end of patience, or when the run could not pass any more
    p50_ttfa: float
    p90_ttfa: float
    p95_ttfa: float
    p99_ttfa: float
    viable_streams: float
    viable_chunks: float  # share of those after a stream's first: see `on_time`
    stall_50ms: float  # share of streams that stall although the player waits so long before it begins
    stall_250ms: float
    largest_gap: float
    refusal_p99_ms: float | None
    audio_per_second: float
    cpu_per_audio_second: float
    rss_mb: float
    overhead: float | None  # see `Usage`; a baseline does not say
    recorded: float | None  # see `Usage`
    codec_recorded: float | None
    step_gap: float | None  # at the end
    others_cpu: float  # cores that something else kept busy: figures are worth little where this is not about 0

    def report(self) -> dict[str, float | None]:
        """For programs. JSON knows no infinity: a time that nobody heard the end of is null."""
        return {name: value if value is not None and math.isfinite(value) else None for name, value in asdict(self).items()}


def figures(rate: float, hearings: Sequence[Hearing], seconds: float, before: Usage, after: Usage) -> Figures:
    """Of a run that took `seconds`."""
    heard = [h for h in hearings if h.arrivals]
    ttfa = [h.ttfa for h in heard if h.ttfa is not None]
    gaps = [stall.length for h in heard for stall in h.player.stalls]
    later = sum(h.player.chunks - 1 for h in heard)
    refusals = [h.ended - h.scheduled for h in hearings if h.failure == "busy" and h.ended is not None]
    sound = sum(h.player.sound for h in heard)
    return Figures(
        rate=rate,
        passed=passed(hearings),
        requests=len(hearings),
        refused=len(refusals),
        errors=sum(h.failure not in ("", "busy") for h in hearings),
        unserved=sum(h.ended is None for h in hearings),
        p50_ttfa=quantile(ttfa, 0.5),
        p90_ttfa=quantile(ttfa, 0.9),
        p95_ttfa=quantile(ttfa, 0.95),
        p99_ttfa=quantile(ttfa, 0.99),
        viable_streams=1 - _share(sum(h.player.stalled for h in heard), len(heard)),
        viable_chunks=_share(sum(on_time(h.arrivals) for h in heard), later),
        stall_50ms=_share(sum(replay(h.arrivals, 0.05).stalled for h in heard), len(heard)),
        stall_250ms=_share(sum(replay(h.arrivals, 0.25).stalled for h in heard), len(heard)),
        largest_gap=max(gaps, default=0.0),
        refusal_p99_ms=1000 * quantile(refusals, 0.99) if refusals else None,
        audio_per_second=sound / seconds,
        cpu_per_audio_second=(after.cpu - before.cpu) / max(sound, 1e-9),
        rss_mb=after.rss,
        overhead=after.overhead,
        recorded=after.recorded,
        codec_recorded=after.codec_recorded,
        step_gap=after.step_gap,
        others_cpu=(after.others - before.others) / seconds,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


COLUMNS = (
    ("rate", "rate", "{:.2f}", 1),
    ("TTFA p50", "p50_ttfa", "{:.0f}", 1000),
    ("p90", "p90_ttfa", "{:.0f}", 1000),
    ("p95", "p95_ttfa", "{:.0f}", 1000),
    ("p99 ms", "p99_ttfa", "{:.0f}", 1000),
    ("viable %", "viable_streams", "{:.1f}", 100),
    ("chunks %", "viable_chunks", "{:.2f}", 100),
    ("stall@50", "stall_50ms", "{:.1f}", 100),
    ("@250 %", "stall_250ms", "{:.1f}", 100),
    ("gap ms", "largest_gap", "{:.0f}", 1000),
    ("refused", "refused", "{:.0f}", 1),
    ("in ms", "refusal_p99_ms", "{:.0f}", 1),
    ("unserved", "unserved", "{:.0f}", 1),
    ("of", "requests", "{:.0f}", 1),
    ("audio/s", "audio_per_second", "{:.1f}", 1),
    ("CPU/audio", "cpu_per_audio_second", "{:.3f}", 1),
    ("RSS MB", "rss_mb", "{:.0f}", 1),
    ("overhead %", "overhead", "{:.1f}", 100),
    ("graphs %", "recorded", "{:.0f}", 100),
    ("codec %", "codec_recorded", "{:.0f}", 100),
    ("step gap us", "step_gap", "{:.0f}", 1e6),
    ("others", "others_cpu", "{:.2f}", 1),
)  # heading, field, format, factor


def header() -> str:
    """The headings of a table of figures."""
    return "".join(f"{heading:>{_width(heading)}}" for heading, *_ in COLUMNS)


def row(run: Figures) -> str:
    """A line of the table."""
    cells = []
    for heading, name, form, factor in COLUMNS:
        value = getattr(run, name)
        cells.append(f"{'-' if value is None else form.format(factor * value):>{_width(heading)}}")
    return "".join(cells)


def _width(heading: str) -> int:
    return max(7, len(heading) + 2)
