"""Attention over the paged cache by torch's own: on any device and with any numbers, at the price of padding."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from voxrtc.engine.attention import Layout, sizes
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.staging import Staging
from voxrtc.speechlm.layers.attention import Attention


class SdpaAttention:
    """`attention.Backend` for what has no kernels of its own, and the yardstick of those that have.

    Beside the host, where a cache has scratch, decode steps have few forms: they are filled up to a width, and what a stream
    sees to one of a few numbers of pages.
    """

    def __init__(self, cache: PagedCache) -> None:
        self._cache, self.fixed = cache, cache.scratch is not None
        self._sizes = sizes(cache.scratch) if cache.scratch else []
        if self.fixed:
            streams, most = cache.table.shape
            device = cache.keys.device
            self._staging = Staging(streams * most + 3 * streams, 4, torch.long, device)
            self._places = torch.arange(most * cache.page_size, device=device)

    def width(self, streams: int) -> int:
        return self._sizes[bisect_left(self._sizes, streams)] if self.fixed else streams

    def form(self, layout: Layout) -> int:
        """Pages that every stream is taken to hold: the next power of two, or the most that one can."""
        held = int(layout.starts.max()) // self._cache.page_size + 1
        return min(1 << (held - 1).bit_length(), self._cache.table.shape[1])

    def plan(self, layout: Layout) -> Attention:
        return self._decode(layout) if self.fixed and layout.decode_only else _SdpaStep(self._cache, layout)

    def _decode(self, layout: Layout) -> Attention:
        size, table, most = self._cache.page_size, self._cache.table.numpy(), self.form(layout)
        now = layout.starts // size
        seen = table[
            layout.slots[:, None], np.minimum(np.arange(most), now[:, None])
        ]  # behind its own, rows are stale: see below
        to = table[layout.slots, now], layout.starts % size
        pages, page, offset, position = self._staging.send(seen.ravel(), *to, layout.starts)
        return _SdpaDecode(self._cache, pages.view(-1, most), page, offset, position, self._places[: most * size])


@dataclass(frozen=True)
class _SdpaDecode:
    """The attention of a step of one token a stream, of which nothing but numbers differs from another of its form."""

    cache: PagedCache
    pages: Tensor  # [n, most] that a stream sees
    page: Tensor  # [n] that its token goes to
    offset: Tensor  # [n] there
    position: Tensor  # [n]
    places: Tensor  # [most * page_size] 0, 1, 2, …

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """As `_SdpaStep.attend`."""
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.page, :, self.offset], values[self.page, :, self.offset] = k, v
        past, shown = (part[self.pages].transpose(1, 2).flatten(2, 3) for part in (keys, values))
        mask = (self.places <= self.position[:, None])[:, None, None]
        shared = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q[:, :, None], past, shown, attn_mask=mask, enable_gqa=shared)[:, :, 0]


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
