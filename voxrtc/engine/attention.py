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
    """Streams that bring the same number of tokens, padded to the longest history among them."""

    def __init__(self, cache: PagedCache, slots: list[int], starts: list[int], count: int, firsts: list[int]) -> None:
        self.count = count
        self.rows = (torch.tensor(firsts)[:, None] + torch.arange(count)).flatten()
        length = max(starts) + count
        self.pages = cache.table[torch.tensor(slots), : cache.pages_for(length)]
        seen = torch.arange(self.pages.shape[1] * cache.page_size)
        query = torch.tensor(starts)[:, None] + torch.arange(count)
        self.mask = (seen <= query[..., None])[:, None]  # [streams, 1, count, positions]

    def attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        q = q.unflatten(0, (-1, self.count)).transpose(1, 2)
        k, v = (cache[self.pages].flatten(1, 2).transpose(1, 2) for cache in (keys, values))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, enable_gqa=q.shape[1] != k.shape[1])
        return seen.transpose(1, 2).flatten(0, 1)
