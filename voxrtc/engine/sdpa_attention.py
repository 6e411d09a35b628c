"""Attention over the paged cache by torch's own: on any device and with any numbers, at the price of padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from voxrtc.engine.attention import Layout
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.speechlm.layers.attention import Attention


class SdpaAttention:
    """`attention.Backend` for what has no kernels of its own, and the yardstick of those that have."""

    fixed = False

    def __init__(self, cache: PagedCache) -> None:
        self._cache = cache

    def width(self, streams: int) -> int:
        return streams

    def plan(self, layout: Layout) -> Attention:
        return _SdpaStep(self._cache, layout)


class _SdpaStep:
    """One step's attention: n streams, filled up to the most tokens that one brings and the most pages that one holds."""

    def __init__(self, cache: PagedCache, layout: Layout) -> None:
        self._cache, self._width = cache, max(layout.counts)
        size, table = cache.page_size, cache.table.numpy()
        counts = np.array(layout.counts)
        ends = layout.starts + counts
        held = -(-ends // size)
        # Behind its own pages a stream's row of the table is stale: another's page there may hold numbers that are none.
        own = np.minimum(np.arange(held.max()), held[:, None] - 1)
        self._pages = self._there(table[layout.slots[:, None], own])  # [n, most pages]
        stream = np.repeat(np.arange(len(counts)), counts)
        self._stream = self._there(stream)  # of each token
        self._place = self._there(layout.positions - layout.starts[stream])  # of each token in its stream's part
        self._page = self._there(table[layout.rows, layout.positions // size])  # that each token goes to
        self._offset = self._there(layout.positions % size)
        asking = np.minimum(layout.starts[:, None] + np.arange(self._width), ends[:, None] - 1)  # what fills up sees as well
        seen = np.arange(held.max() * size) <= asking[..., None]
        self._mask = self._there(seen[:, None])  # [n, 1, most tokens, most positions]

    def _there(self, numbers: NDArray[Any]) -> Tensor:
        return torch.from_numpy(numbers).to(self._cache.keys.device)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write `k`, `v` [tokens, kv_heads, head_dim] into the pages; `q` [tokens, heads, head_dim] looks at its past."""
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys[self._page, :, self._offset], values[self._page, :, self._offset] = k, v
        asking = q.new_zeros(len(self._pages), self._width, *q.shape[1:])
        asking[self._stream, self._place] = q
        past, shown = (part[self._pages].transpose(1, 2).flatten(2, 3) for part in (keys, values))
        shared = q.shape[1] != k.shape[1]
        seen = F.scaled_dot_product_attention(asking.transpose(1, 2), past, shown, attn_mask=self._mask, enable_gqa=shared)
        return seen.transpose(1, 2)[self._stream, self._place]
