"""The model's steps: each is launched before what those before it gave is read, as far as the worker's `lag` says."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from voxrtc.engine.stream import Piece, Stream
from voxrtc.engine.worker import Step, Task, Worker

Stepped = Callable[[Stream, Piece, tuple[Tensor, bool] | Exception], None]


@dataclass(frozen=True)
class Flight:
    """A step under way, and whose it is."""

    began: float
    owners: list[tuple[Stream, Piece]]
    tasks: list[Task]
    step: Step


@dataclass(frozen=True)
class Landed:
    """A step that was done `at`."""

    at: float
    seconds: float  # that it took, or since the one before was done
    forward: float  # of these, seconds in which the model ran forward
    sampling: float  # and in which it sampled
    streams: int
    prompt_tokens: int
    frames: int  # sampled
    recorded: bool
    gap: float | None  # seconds in which the device had no step before this one


class Stepping:
    """Steps under way, in their order. All of it happens on the engine's thread."""

    def __init__(self, worker: Worker, clock: Callable[[], float], observe: Callable[[Landed], None], stepped: Stepped) -> None:
        """`observe` learns of each step that is done. Then `stepped` gets each stream's frame and whether it was its last, or
        why there is none."""
        self._worker, self._clock, self._observe, self._stepped = worker, clock, observe, stepped
        self._flights: deque[Flight] = deque()
        self._landed = -math.inf  # when the latest step was done

    @property
    def under_way(self) -> bool:
        """Whether any step is."""
        return bool(self._flights)

    def step(self, parts: list[tuple[Stream, int]]) -> None:
        """Launch the next so many tokens of each stream, and take what is due of the steps before: all, if nothing is new."""
        if parts:
            self._launch(parts)
        while len(self._flights) > (self._worker.lag if parts else 0):
            self._land(self._flights.popleft())

    def _launch(self, parts: list[tuple[Stream, int]]) -> None:
        began, tasks, owners = self._clock(), [], []
        for stream, count in parts:
            assert (piece := stream.piece) is not None, f"{stream.id} was planned without a prompt"
            tasks.append(Task(stream.slot, piece.position, count, samples=piece.position + count >= piece.prompt.length))
            owners.append((stream, piece))
            piece.position += count
            stream.first_step = stream.first_step or began
        self._flights.append(Flight(began, owners, tasks, self._worker.launch(tasks)))

    def _land(self, flight: Flight) -> None:
        """Take what a step gave. What it gave for streams that left meanwhile is dropped."""
        step, results = flight.step, flight.step.results()
        began, self._landed = max(flight.began, self._landed), self._clock()  # one that lags began when the one before ended
        landed = Landed(
            self._landed,
            self._landed - began,
            *step.seconds,
            streams=len(flight.tasks),
            prompt_tokens=sum(task.count for task in flight.tasks if task.count > 1),
            frames=sum(isinstance(result, tuple) for result in results),
            recorded=step.recorded,
            gap=step.gap,
        )
        self._observe(landed)
        for (stream, piece), result in zip(flight.owners, results, strict=True):
            if result is not None and stream.piece is piece and not piece.complete:
                self._stepped(stream, piece, result)
