"""What the responses of all sessions come to, by model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from voxrtc.messages.calls import Spoke
from voxrtc.recent import WAITS, Durations, Recent


@dataclass
class _Model:
    responses: int = 0
    underruns: int = 0
    ttfa: Recent = field(default_factory=Recent)
    turn: Recent = field(default_factory=Recent)
    first_sounds: Durations = field(default_factory=lambda: Durations(WAITS))
    answers: Durations = field(default_factory=lambda: Durations(WAITS))

    def spoke(self, now: float) -> Spoke:
        return Spoke(
            responses=self.responses,
            underruns=self.underruns,
            ttfa=self.ttfa.latency(now),
            turn=self.turn.latency(now),
            first_sounds=self.first_sounds.histogram,
            answers=self.answers.histogram,
        )


class Tally:
    """Counts since the process started; latencies of late."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._models: dict[str, _Model] = {}

    def began(self, model: str, stages: Mapping[str, float | None]) -> None:
        """A response's first sample was sent, after `stages.Marks.told`."""
        counted, now = self._models.setdefault(model, _Model()), self._clock()
        total, silence, words = stages["total"], stages["silence"], stages["words"]
        assert total is not None
        counted.responses += 1
        counted.ttfa.observe(now, total / 1000)
        counted.first_sounds.observe(total / 1000)
        if silence is not None and words is not None:
            counted.turn.observe(now, (silence + words + total) / 1000)
            counted.answers.observe((silence + words + total) / 1000)

    def ended(self, model: str, underruns: int) -> None:
        """A response was played to its end, or cut off."""
        self._models.setdefault(model, _Model()).underruns += underruns

    def spoke(self) -> dict[str, Spoke]:
        """By model."""
        now = self._clock()
        return {model: each.spoke(now) for model, each in self._models.items()}
