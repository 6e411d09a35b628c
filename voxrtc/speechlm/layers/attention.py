"""What a decoder block asks of attention. The engine answers with paged caches; training and oracles with `DenseCausal`."""

from __future__ import annotations

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


def rope_table(positions: int, head_dim: int, theta: float) -> Tensor:
    """Rotary angles of all positions below `positions`: see `rope_at`."""
    return rope_at(torch.arange(positions), head_dim, theta)


def rope_at(positions: Tensor, head_dim: int, theta: float) -> Tensor:
    """Rotary angles at integer positions [n] as cosines and sines, [n, 2, head_dim / 2] (RoFormer, arXiv 2104.09864)."""
    frequency = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
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
