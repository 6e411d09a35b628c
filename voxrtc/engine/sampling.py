"""Sampling: settings and randomness belong to a stream; one batched call serves all of a step.

Random numbers are a hash of (the stream's seed, its frame, the codebook): nothing to carry, the same alone or in any batch,
and the same again after a preempted stream is computed anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.base import HOST, InvalidRequest


class SamplingTable:
    """Sampling settings by slot."""

    def __init__(self, slots: int, device: torch.device = HOST) -> None:
        self.device = device
        self.temperature = torch.zeros(slots, device=device)
        self.top_k = torch.zeros(slots, dtype=torch.long, device=device)  # 0: all
        self.top_p = torch.ones(slots, device=device)
        self.min_p = torch.zeros(slots, device=device)
        self.penalty = torch.ones(slots, device=device)
        self.seed = torch.zeros(slots, dtype=torch.long, device=device)
        self.step = torch.zeros(slots, dtype=torch.long, device=device)  # frames sampled so far
        self._random: set[int] = set()  # slots above temperature 0, known to the host so that a greedy step stays short
        self._penalised: set[int] = set()

    def set(self, slot: int, wanted: Sampling, defaults: Sampling, seed: int, step: int) -> None:
        """Give `slot` a stream's settings, what it leaves open from the model's defaults; it has sampled `step` frames."""
        settings = {
            **msgspec.structs.asdict(defaults),
            **{k: v for k, v in msgspec.structs.asdict(wanted).items() if v is not None},
        }
        self.temperature[slot], self.top_k[slot] = settings["temperature"], settings["top_k"]
        self.top_p[slot], self.min_p[slot] = settings["top_p"], settings["min_p"]
        self.penalty[slot], self.seed[slot], self.step[slot] = settings["repetition_penalty"], seed, step
        (self._random.add if settings["temperature"] > 0 else self._random.discard)(slot)
        (self._penalised.add if settings["repetition_penalty"] != 1 else self._penalised.discard)(slot)

    def sampler(self, slots: Sequence[int], rows: Tensor | None = None) -> BatchSampler:
        """The sampler of one step. It is told to `advance` after it, so that a step that failed can be run again alike.

        `rows` are `slots` on the device, if they are there already.
        """
        rows = torch.tensor(slots).to(self.device) if rows is None else rows
        return BatchSampler(self, rows, *self.manner(slots))

    def manner(self, slots: Sequence[int]) -> tuple[bool, bool]:
        """Whether any of these streams wants chance, and any penalties: what a step's operations depend on."""
        return not self._random.isdisjoint(slots), not self._penalised.isdisjoint(slots)


class BatchSampler:
    """`speechlm.base.Sampler` over the streams of one step."""

    def __init__(self, table: SamplingTable, rows: Tensor, random: bool, penalised: bool) -> None:
        self._table, self.rows, self._random, self._penalised = table, rows, random, penalised
        self._step = table.step[rows]

    def advance(self) -> None:
        """Count a sampled frame for each of its streams."""
        self._table.step[self.rows] += 1

    def __call__(self, logits: Tensor, book: int, recent: Tensor | None = None) -> Tensor:
        table, rows, logits = self._table, self.rows, logits.float()
        if self._penalised and recent is not None:
            logits = penalise(logits, recent, table.penalty[rows])
        if not self._random:
            return logits.argmax(-1)
        number = uniform(table.seed[rows], self._step, book)
        return choose(logits, table.temperature[rows], table.top_k[rows], table.top_p[rows], table.min_p[rows], number)

    def normal(self, width: int) -> Tensor:
        table, rows = self._table, self.rows
        std = table.temperature[rows, None].sqrt()
        return std * normal(table.seed[rows, None], self._step[:, None], width) if self._random else std.expand(-1, width)


def choose(logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor, number: Tensor) -> Tensor:
    """Scores [n, size] and settings [n] -> codes [n]; `number` [n] in 0..1 is each row's random draw.

    Temperature first, then the intersection of top-k (0: all), top-p and min-p, all three judged on the tempered
    distribution. The best code always stays. Temperature 0 is greedy.
    """
    tempered = logits / temperature.clamp(min=1e-4)[:, None]
    scores, order = descending(tempered)
    p = scores.softmax(-1)
    before = p.cumsum(-1) - p
    rank = torch.arange(p.shape[-1], device=p.device)
    keep = (
        (rank < torch.where(top_k > 0, top_k, p.shape[-1])[:, None])
        & (before < top_p[:, None])
        & (p >= min_p[:, None] * p[:, :1])
    )
    keep[:, 0] = True
    cumulative = (p * keep).cumsum(-1)
    drawn = (cumulative <= number[:, None] * cumulative[:, -1:]).sum(-1)
    drawn = torch.minimum(drawn, keep.sum(-1) - 1)  # rounding must not step over the last code kept
    picked = order.gather(1, torch.where(temperature > 0, drawn, 0)[:, None])
    return picked[:, 0]


def descending(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [n, size] sorted, the best first, and where each was; of equals the first comes first.

    On a CPU by numpy, which has vector instructions for integers: torch takes ten times as long when there are several rows.
    A row's key is the bits of its floats, made to rise as they fall, and its place below them.
    """
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        return scores.sort(dim=-1, descending=True, stable=True)
    bits = (scores + 0.0).numpy().view(np.int32)  # -0.0 becomes 0.0, which it equals
    keys = (~(bits ^ ((bits >> 31) & 0x7FFFFFFF))).astype(np.int64) << 32 | np.arange(scores.shape[-1])
    keys.sort(axis=-1)
    order = torch.from_numpy(keys & 0xFFFFFFFF)
    return scores.gather(-1, order), order


def penalise(logits: Tensor, recent: Tensor, penalty: Tensor) -> Tensor:
    """Weigh down codes in `recent` [n, any] (-1: none): scores above 0 are divided, others multiplied (CTRL, 1909.05858)."""
    seen = torch.zeros(logits.shape[0], logits.shape[1] + 1, dtype=torch.bool, device=logits.device)
    seen.scatter_(1, torch.where(recent >= 0, recent, logits.shape[1]), True)
    factor = penalty[:, None]
    return torch.where(seen[:, :-1], torch.where(logits > 0, logits / factor, logits * factor), logits)


def normal(seed: Tensor, step: Tensor, width: int) -> Tensor:
    """Standard normal numbers [n, width] for integer seeds and steps [n, 1], by the transform of Box and Muller (1958)."""
    radius, turn = uniform(seed, step, torch.arange(2 * width, device=seed.device)).chunk(2, dim=-1)
    return (-2 * (1 - radius).log()).sqrt() * (2 * math.pi * turn).cos()


def uniform(seed: Tensor, step: Tensor, book: Tensor | int) -> Tensor:
    """Numbers in 0..1 for integers of shapes that fit: SplitMix64's mixer over the three (Steele et al., OOPSLA 2014)."""
    x = seed
    for part in (step, book if isinstance(book, Tensor) else torch.tensor(book)):
        x = _mix(x + (part + 1) * -7046029254386353131)  # 0x9E3779B97F4A7C15, the golden gamma
    return ((x >> 11) & ((1 << 53) - 1)).double().mul(2.0**-53).float().clamp(max=1 - 2**-24)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift(x, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    x = (x ^ _shift(x, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's own keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def check(sampling: Sampling) -> None:
    """Raise `InvalidRequest` where a setting is outside what makes sense."""
    for name, low, high in (
        ("temperature", 0, 2),
        ("top_k", 0, 2**31),
        ("top_p", 0, 1),
        ("min_p", 0, 1),
        ("repetition_penalty", 0.1, 10),
        ("seed", -(2**63), 2**63 - 1),
    ):
        value = getattr(sampling, name)
        if value is not None and not low <= value <= high:  # also false for NaN
            raise InvalidRequest(f"{name} is {value}; it must lie between {low} and {high}.")
