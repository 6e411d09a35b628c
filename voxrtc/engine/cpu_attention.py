"""Attention over the paged cache on a CPU, in float32.

The histories of a step's streams differ in length by a factor of ten. Padding them to the longest for one call of torch's
attention, or calling it once a stream, costs several times what reading them takes, so the loop is compiled by numba: it
reads every stream's pages where they are, exactly as far as they go. A stream's numbers are thus the same to the bit
whatever else is in the batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from voxrtc.engine.attention import Integers, Layout
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.speechlm.layers.attention import Attention

log = logging.getLogger(__name__)

Floats: TypeAlias = NDArray[np.float32]
_MATH = {"reassoc", "contract", "arcp", "nsz"}  # sums in any order; but numbers may be none, by which a broken stream is known


def _compiled(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """What was compiled once (seconds) is kept beside this file or with the user, where one of them can be written."""

    def compile(function: Callable[..., None]) -> Callable[..., None]:
        try:
            return _Kept(njit(nogil=True, cache=True, **options)(function))
        except RuntimeError:  # there is no place
            return njit(nogil=True, **options)(function)

    return compile


class _Kept:
    """A compiled function. Its first call compiles it and then keeps it on the disk, which may be full. That is no reason not
    to compute: by then it is compiled."""

    def __init__(self, compiled: Callable[..., None]) -> None:
        self._compiled = compiled

    def __call__(self, *inputs: Any) -> None:
        try:
            self._compiled(*inputs)
        except OSError as wrong:
            log.warning("what was compiled is not kept for the next start: %s", wrong)
            self._compiled(*inputs)


class CpuAttention:
    """`attention.Backend` for a cache in the host's memory."""

    fixed = False

    def __init__(self, cache: PagedCache) -> None:
        self._keys, self._values, self._table = cache.keys.numpy(), cache.values.numpy(), cache.table.numpy()

    def width(self, streams: int) -> int:
        return streams

    def form(self, layout: Layout) -> int:
        return 0

    def plan(self, layout: Layout) -> Attention:
        return _CpuStep(self._keys, self._values, self._table, layout)


class _CpuStep:
    """One step's attention."""

    def __init__(self, keys: Floats, values: Floats, table: Integers, layout: Layout) -> None:
        self._keys, self._values, self._table = keys, values, table
        self._rows, self._positions = layout.rows, layout.positions

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write `k`, `v` [tokens, kv_heads, head_dim] into the pages; `q` [tokens, heads, head_dim] looks at its past."""
        keys, values = self._keys[layer], self._values[layer]
        _store(k.numpy(), v.numpy(), keys, values, self._table, self._rows, self._positions)
        seen = torch.empty(q.shape)
        q = q.contiguous()  # a single row is so anyway, and numba would compile something else for others
        _attend(q.numpy(), keys, values, self._table, self._rows, self._positions, seen.numpy())
        return seen


@_compiled()
def _store(k, v, keys, values, table, rows, positions):  # type: ignore[no-untyped-def]
    """Token i of slot `rows[i]` goes to `positions[i]` of that slot. Pages are [pages, kv_heads, page_size, head_dim]."""
    size = keys.shape[2]
    for i in range(len(rows)):
        page, place = table[rows[i], positions[i] // size], positions[i] % size
        keys[page, :, place] = k[i]
        values[page, :, place] = v[i]


@_compiled(fastmath=_MATH)
def _attend(q, keys, values, table, rows, positions, out):  # type: ignore[no-untyped-def]
    """softmax(q k / sqrt(head_dim)) v of each token over its slot's positions up to its own."""
    heads, dim = q.shape[1:]
    shared = heads // keys.shape[1]  # query heads that look at the same keys (grouped-query attention)
    size = keys.shape[2]
    scale = np.float32(1 / math.sqrt(dim))
    weights = np.empty(positions.max() + 1, np.float32)
    for i in range(len(rows)):
        length, pages = positions[i] + 1, table[rows[i]]
        for head in range(heads):
            top, total = np.float32(-np.inf), np.float32(0)
            for first in range(0, length, size):
                page = keys[pages[first // size], head // shared]
                for t in range(min(size, length - first)):
                    score = np.float32(0)
                    for d in range(dim):
                        score += q[i, head, d] * page[t, d]
                    weights[first + t] = score * scale
                    top = max(top, weights[first + t])
            for t in range(length):
                weights[t] = math.exp(weights[t] - top)
                total += weights[t]
            for d in range(dim):
                out[i, head, d] = 0
            for first in range(0, length, size):
                page = values[pages[first // size], head // shared]
                for t in range(min(size, length - first)):
                    weight = weights[first + t] / total
                    for d in range(dim):
                        out[i, head, d] += weight * page[t, d]
