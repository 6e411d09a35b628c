"""CUDA graphs: what a decode step or a detokenizer's pass asks of the device is recorded once for each shape, and then
repeated by one call.

A small model's step is a few hundred kernels of a few microseconds each, and Python takes longer to ask for them than the GPU
to run them. A graph repeats them on the same addresses: so the inputs of a step lie in the same place each time (`staging`,
and of a pass `codecs.lanes`), and all else that it reads or writes are tables and weights, which never move. Nothing here is
CUDA's but `CudaRecorder`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recording:
    """Work that can be done again. `result` are the tensors that it leaves its results in, each time the same."""

    replay: Callable[[], None]
    result: Any
    done: bool = False  # recording it has done it, too


class Recorder(Protocol):
    """A way to record work. Raises, and has changed nothing, when it cannot be."""

    def __call__(self, work: Callable[[], Any], /) -> Recording: ...


class CudaRecorder:
    """By CUDA graphs, whose memory is shared: only one of them runs at a time. Steps and detokenizer have one each."""

    _one_at_a_time = threading.Lock()  # of all recorders: before a recording torch waits for the device, and gives memory back

    def __init__(self, device: torch.device) -> None:
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)

    def __call__(self, work: Callable[[], Any]) -> Recording:
        graph = torch.cuda.CUDAGraph()
        recording = torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local")
        with self._one_at_a_time, recording:  # meanwhile the other thread's work goes on undisturbed
            result = work()
        return Recording(graph.replay, result)


class Graphs:
    """Recordings by a key, which says all that may differ between two times but for the numbers at fixed addresses."""

    def __init__(self, record: Recorder) -> None:
        self.runs = self.repeats = 0  # how often something was to be done, and how often it came of a recording
        self._record = record
        self._known: dict[Hashable, Recording] = {}
        self._seen: set[Hashable] = set()
        self._unfit: set[Hashable] = set()

    @property
    def count(self) -> int:
        """Recordings."""
        return len(self._known)

    def recount(self) -> None:
        """What was done until now counts no more."""
        self.runs = self.repeats = 0

    def run(self, key: Hashable, work: Callable[[], T]) -> tuple[T, bool]:
        """The result of `work`, and whether it came of a recording. That is good until the next time with a key of this kind.

        The first time it is just done, as kernels are compiled and buffers made then; the second time it is recorded. What
        cannot be recorded is done as ever.
        """
        self.runs += 1
        if recording := self._known.get(key) or self._recorded(key, work):
            self.repeats += 1
            if not recording.done:
                recording.replay()
            return recording.result, True
        self._seen.add(key)
        return work(), False

    def _recorded(self, key: Hashable, work: Callable[[], Any]) -> Recording | None:
        if key not in self._seen or key in self._unfit:
            return None
        try:
            recording = self._record(work)
        except Exception as unfit:  # noqa: BLE001  whatever a model's code does that no graph can
            log.warning("work of %s is not recorded: %s", key, unfit)
            self._unfit.add(key)
            return None
        self._known[key] = Recording(recording.replay, recording.result)
        return recording


def graphs_for(device: torch.device, recorder: Recorder | None) -> Graphs | None:
    """Where a device's work is to be recorded: by `recorder`, or by CUDA graphs where there are such; None: nowhere."""
    if recorder is None and device.type == "cuda":
        recorder = CudaRecorder(device)
    return Graphs(recorder) if recorder else None
