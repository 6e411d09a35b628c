"""Attention over the paged cache. One interface (`speechlm.layers.attention.Attention`); here its torch SDPA backend."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voxrtc.engine.kv_cache import PagedCache


class PagedSdpa:
    """One step's attention for streams in `slots`, where stream i brings `counts[i]` tokens from position `starts[i]` on.

    Streams with one token go through one padded call; the rest, prompts, go one by one.
    """

    def __init__(self, cache: PagedCache, slots: list[int], starts: list[int], counts: list[int]) -> None:
        self._cache = cache
        ends = [start + count for start, count in zip(starts, counts, strict=True)]
        self.positions = torch.cat([torch.arange(start, end) for start, end in zip(starts, ends, strict=True)])
        rows = torch.tensor(slots).repeat_interleave(torch.tensor(counts))
        page, offset = self.positions // cache.page_size, self.positions % cache.page_size
        self._where = (cache.table[rows, page], offset)
        self._groups = list(self._group(slots, starts, counts))

    def _group(self, slots: list[int], starts: list[int], counts: list[int]) -> list[_Group]:
        firsts = [sum(counts[:i]) for i in range(len(counts))]
        singles = [i for i, count in enumerate(counts) if count == 1]
        groups = [[i] for i, count in enumerate(counts) if count > 1]
        return [
            _Group(
                self._cache,
                [slots[i] for i in members],
                [starts[i] for i in members],
                counts[members[0]],
                [firsts[i] for i in members],
            )
            for members in ([singles] if singles else []) + groups
        ]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write `k`, `v` [tokens, kv_heads, head_dim] into the pages; `q` [tokens, heads, head_dim] looks at its past."""
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys[self._where], values[self._where] = k, v
        if len(self._groups) == 1:
            return self._groups[0].attend(q, keys, values)
        out = torch.empty_like(q)
        for group in self._groups:
            out[group.rows] = group.attend(q[group.rows], keys, values)
        return out


class _Group:
    """Streams that bring the same number of tokens, padded to the longest history among them.

    Where each has one page, as on a CPU, and the pages lie close together, they are looked at where they are: copying
    histories together would cost as much as all matrix products of a small model. Pages between them that belong to
    others ride along as rows that nobody reads.
    """

    def __init__(self, cache: PagedCache, slots: list[int], starts: list[int], count: int, firsts: list[int]) -> None:
        self.count, self.length = count, max(starts) + count
        self.rows = (torch.tensor(firsts)[:, None] + torch.arange(count)).flatten()
        self.pages = cache.table[torch.tensor(slots), : cache.pages_for(self.length)]
        query = torch.tensor(starts)[:, None] + torch.arange(count)
        low, high = int(self.pages.min()), int(self.pages.max()) + 1
        self.span = slice(low, high) if self.pages.shape[1] == 1 and high - low <= 2 * len(slots) else None
        if self.span:
            self.place = self.pages[:, 0] - low
            query = torch.zeros(high - low, count, dtype=torch.long).index_copy(0, self.place, query)
        self.mask = (torch.arange(self.length) <= query[..., None])[:, None]  # [streams, 1, count, positions]

    def attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        q = q.unflatten(0, (-1, self.count))
        if self.span:
            q = q.new_zeros(len(self.mask), *q.shape[1:]).index_copy_(0, self.place, q)
        k, v = (self._history(cache).transpose(1, 2) for cache in (keys, values))
        seen = F.scaled_dot_product_attention(
            q.transpose(1, 2), k, v, attn_mask=self.mask, enable_gqa=q.shape[2] != k.shape[1]
        ).transpose(1, 2)
        return (seen[self.place] if self.span else seen).flatten(0, 1)

    def _history(self, cache: Tensor) -> Tensor:
        """Keys or values [pages, page_size, kv_heads, head_dim] -> [streams, length, kv_heads, head_dim]."""
        return cache[self.span, : self.length] if self.span else cache[self.pages].flatten(1, 2)[:, : self.length]
