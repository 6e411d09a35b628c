"""What a decoder block asks of attention. The engine answers with paged caches; training and oracles with `DenseCausal`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Attention(Protocol):
    """Attention of one step over all layers. It owns the keys and values of earlier positions."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store this step's `k`, `v` [..., kv_heads, head_dim] and return what `q` [..., heads, head_dim] sees."""
        ...


class DenseCausal:
    """Whole sequences at once, [batch, time, heads, head_dim], each position seeing itself and what came before."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1]).transpose(1, 2)


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3 stretches the rotary angles it was trained with over longer sequences (arXiv 2407.21783, section 3.4.1)."""

    factor: float  # by which the slowest turn more slowly
    low: float  # turns within `positions` up to which an angle is stretched in full
    high: float  # turns from which on it is left alone; between the two the change is gradual
    positions: int  # of the training before

    def apply(self, frequency: Tensor) -> Tensor:
        """Radians a position -> the same, stretched."""
        turns = self.positions * frequency / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequency * (kept + (1 - kept) / self.factor)


def rope_table(positions: int, head_dim: int, theta: float, scaling: RopeScaling | None = None) -> Tensor:
    """Rotary angles of all positions below `positions`: see `rope_at`.

    Always real and on the CPU, also where a network is laid out without memory (device "meta") before its weights come.
    """
    return rope_at(torch.arange(positions, device="cpu"), head_dim, theta, scaling)


def rope_at(positions: Tensor, head_dim: int, theta: float, scaling: RopeScaling | None = None) -> Tensor:
    """Rotary angles at integer positions [n] as cosines and sines, [n, 2, head_dim / 2] (RoFormer, arXiv 2104.09864)."""
    frequency = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim)
    if scaling:
        frequency = scaling.apply(frequency)
    angle = torch.outer(positions.float(), frequency)
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate `x` [..., heads, head_dim] by `rope` [..., 2, head_dim / 2], halves paired as in Llama's released code.

    Models that pair neighbours instead need no code of their own: see `halves_from_pairs`.
    """
    cos, sin = rope[..., None, 0, :], rope[..., None, 1, :]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def halves_from_pairs(x: Tensor, head_dim: int) -> Tensor:
    """Reorder the first axis [heads * head_dim, ...] of a query or key projection made for paired neighbours.

    What it then computes is the same vector with its even components first, so `rotate` does what rotating neighbours
    would have done, and products of queries and keys stay the same.
    """
    return x.unflatten(0, (-1, head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)


def pairs_from_halves(x: Tensor, head_dim: int) -> Tensor:
    """The way back from `halves_from_pairs`."""
    return x.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).flatten(0, 2)
