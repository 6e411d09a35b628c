"""How busy a device is, by torch's profiler: what kernels it ran, for how long, and how long it had none in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class Busy:
    """Times in microseconds."""

    kernels: int
    share: float  # of the time from the first one's beginning to the last one's end, with some kernel at work
    gap: float  # between one and the next, typically
    longest: float


def busy(run: Callable[[], object]) -> Busy:
    """While `run` runs, with all that it asked of the device."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    return told((e.time_range.start, e.time_range.end) for e in profiler.events() if e.device_type == DeviceType.CUDA)


def told(spans: Iterable[tuple[float, float]]) -> Busy:
    """Of kernels' beginnings and ends, in any order, some beside others."""
    ordered = sorted(spans)
    assert ordered, "the profiler saw no kernel"
    end, gaps = ordered[0][1], []
    for began, ended in ordered[1:]:
        gaps.append(max(0.0, began - end))
        end = max(end, ended)
    whole = end - ordered[0][0]
    return Busy(len(ordered), 1 - sum(gaps) / whole, median(gaps) if gaps else 0.0, max(gaps, default=0.0))
