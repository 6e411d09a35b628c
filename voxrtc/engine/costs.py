"""What a step will cost, learned from what steps did cost. No torch: the simulator uses it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import nnls

from voxrtc.messages.engine import CostStats

CLIP = 1.25  # an observation counts as at most this much slower or faster than the size's typical one
RATE = 0.1  # how fast a typical one follows
AGE = 300  # observations after which what was learned of a size weighs half
REFIT = 16  # observations between fits


@dataclass
class _Size:
    """Work of about one size: what it typically costs, and when that was last seen."""

    terms: tuple[float, ...]
    seconds: float
    seen: int
    count: int = 1


class LinearCost:
    """Seconds as a constant and non-negative weights times `terms`.

    Observations are kept as one typical value a size (powers of about 1.4), so that sizes seen often do not drown the
    others, and one step that was held up by something else hardly moves anything. The weights are the least squares fit
    of relative errors to those values.
    """

    def __init__(self, guess: Sequence[float], terms: Sequence[str] = ()) -> None:
        self.terms, self._guess = terms, list(guess)
        self.weights = list(guess)
        self.count = 0
        self._sizes: dict[tuple[int, ...], _Size] = {}

    def predict(self, *terms: float) -> float:
        """Seconds for these terms."""
        return self.weights[0] + sum(w * x for w, x in zip(self.weights[1:], terms, strict=True))

    def told(self) -> CostStats:
        """What was learned, as `Stats` has it."""
        each = {name: 1e3 * weight for name, weight in zip(self.terms, self.weights[1:], strict=True)}
        return CostStats(call_ms=1e3 * self.weights[0], each_ms=each, observed=self.count)

    def observe(self, seconds: float, *terms: float) -> None:
        """Learn that this took `seconds`."""
        self.count += 1
        seconds = max(seconds, 1e-7)
        key = tuple(round(2 * np.log2(1 + x)) for x in terms)
        if size := self._sizes.get(key):
            rate = max(RATE, 1 / (size.count + 1))
            size.seconds += rate * (min(max(seconds, size.seconds / CLIP), size.seconds * CLIP) - size.seconds)
            size.terms = tuple(old + rate * (new - old) for old, new in zip(size.terms, terms, strict=True))
            size.seen, size.count = self.count, size.count + 1
        else:
            self._sizes[key] = _Size(terms, seconds, self.count)
        if self.count % REFIT == 0 or self.count < REFIT:
            self._fit()

    def _fit(self) -> None:
        """The old weights take part as faint observations, for terms that the work at hand says nothing about."""
        rows, values = [], []
        for size in self._sizes.values():
            weight = 0.5 ** ((self.count - size.seen) / AGE) * min(1.0, size.count / 4) ** 0.5 / size.seconds
            rows.append([weight, *(weight * x for x in size.terms)])
            values.append(weight * size.seconds)
        for i, (weight, scale) in enumerate(zip(self.weights, self._guess, strict=True)):
            faint = 0.03 / max(scale, 1e-9)
            rows.append([faint if i == j else 0.0 for j in range(len(self.weights))])
            values.append(faint * weight)
        self.weights = nnls(np.array(rows), np.array(values))[0].tolist()


@dataclass
class Costs:
    """A model on a machine: running its trunk, choosing a frame's codes (`depth`), and making sound.

    The guesses are a small model's on a CPU; calibration and work replace them.
    """

    step: LinearCost = field(default_factory=lambda: LinearCost((4e-3, 5e-4, 5e-5), ("stream", "prompt token")))
    codec: LinearCost = field(default_factory=lambda: LinearCost((2e-3, 2e-4, 2e-4), ("stream", "frame")))
    depth: LinearCost = field(default_factory=lambda: LinearCost((5e-4, 5e-5), ("stream",)))

    def step_seconds(self, streams: float, prompt_tokens: float = 0) -> float:
        """One step of the language model."""
        return self.step.predict(streams, prompt_tokens) + self.depth.predict(streams)

    def stepped(self, seconds: float, depth_seconds: float, streams: int, sampled: int, prompt_tokens: int) -> None:
        """Learn from a step that took `seconds`, of which `depth_seconds` went into choosing codes for `sampled` streams."""
        self.step.observe(seconds - depth_seconds, streams, prompt_tokens)
        if sampled:
            self.depth.observe(depth_seconds, sampled)

    def codec_seconds(self, streams: int, frames: int) -> float:
        """One call of the detokenizer for `frames` in all."""
        return self.codec.predict(streams, frames)
