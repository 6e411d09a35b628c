"""Attention over the paged cache on a GPU, by FlashInfer's kernels (arXiv 2501.01005; its API of version 0.6).

Its batches are ragged: `indptr` says where each stream's part of a flat list begins. Of a step it wants the pages that each
stream holds, how full the last one is, and for each new token which stream it belongs to and its position. All of that is
worked out on the host, in `plan`, and sent in one copy; then each layer appends its keys and values and runs.

Decode steps are filled up to one of a few sizes. Each size has a wrapper whose buffers are fixed, so that a CUDA graph of
a whole step can be captured and replayed once its numbers are in place.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from voxrtc.engine.attention import Layout, sizes
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.staging import Staging
from voxrtc.speechlm.layers.attention import Attention

log = logging.getLogger(__name__)

WORKSPACE = 128 << 20  # bytes for partial results of streams that are split, as FlashInfer recommends; zero at first
KV_LAYOUT = "HND"  # how a page lies in `PagedCache`: [kv_heads, page_size, head_dim]


def installed() -> ModuleType | None:
    """FlashInfer, imported; None with a warning where it is not there."""
    try:
        import flashinfer
    except ImportError as error:
        log.warning("attention is torch's own, which is slower: %s. Install requirements-cuda.txt for FlashInfer's", error)
        return None
    module: ModuleType = flashinfer
    return module


class FlashInferAttention:
    """`attention.Backend` for a cache on a GPU. It belongs to one thread and one CUDA stream."""

    fixed = True

    def __init__(self, cache: PagedCache, heads: int, flashinfer: Any) -> None:
        """`flashinfer` is the module; the cache must have scratch."""
        assert cache.scratch is not None, "decode steps are filled up with streams whose pages nobody reads"
        self._cache, self._table, self._append = cache, cache.table.numpy(), flashinfer.append_paged_kv_cache
        self._heads, (self._kv_heads, _, self._head_dim) = heads, cache.keys.shape[2:]
        self._sizes, device = sizes(cache.scratch), cache.keys.device
        self._most_pages = cache.pages + cache.scratch  # a page is held once, but for the scratch
        streams, tokens = len(self._table), self._table.size * cache.page_size  # at the most
        self._staging = Staging(3 * streams + 2 + self._most_pages + 2 * tokens, 6, torch.int32, device)
        self._workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=device)
        self._prefill = flashinfer.BatchPrefillWithPagedKVCacheWrapper(self._workspace, KV_LAYOUT)
        self._decode = {size: self._decode_wrapper(size, flashinfer) for size in self._sizes}

    def _decode_wrapper(self, size: int, flashinfer: Any) -> Any:
        """For decode steps of `size` streams, on the very places that `plan` sends their numbers to.

        With the kernels for tensor cores: the others exist for a few ratios of query heads to key heads only.
        """
        indptr, last_page_len, _, _, indices = self._staging.places(size + 1, size, size, size, self._most_pages)
        return flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            self._workspace,
            KV_LAYOUT,
            use_cuda_graph=True,
            use_tensor_cores=True,
            paged_kv_indptr_buffer=indptr,
            paged_kv_indices_buffer=indices,
            paged_kv_last_page_len_buffer=last_page_len,
        )

    def width(self, streams: int) -> int:
        return self._sizes[bisect_left(self._sizes, streams)]

    def form(self, layout: Layout) -> int:
        return 0

    def plan(self, layout: Layout) -> Attention:
        ends = layout.starts + layout.counts
        pages = -(-ends // self._cache.page_size)
        indptr, last = _indptr(pages), (ends - (pages - 1) * self._cache.page_size).astype(np.int32)
        indices = np.concatenate([self._table[slot, :held] for slot, held in zip(layout.slots, pages, strict=True)])
        stream = np.repeat(np.arange(len(pages)), layout.counts)
        # The numbers that FlashInfer wants on the host too are given as they are: its copies are not ours to wait for.
        host = torch.from_numpy(indptr), torch.from_numpy(last)
        if layout.decode_only:
            wrapper = self._decode[len(pages)]
            there = self._staging.send(indptr, last, stream, layout.positions, indices)
            wrapper.plan(host[0], there[-1], host[1], **self._shape(prefill=False))
        else:
            wrapper, queries = self._prefill, _indptr(layout.counts)
            _, *there = self._staging.send(queries, indptr, last, stream, layout.positions, indices)
            wrapper.plan(torch.from_numpy(queries), host[0], there[-1], host[1], causal=True, **self._shape(prefill=True))
        self._staging.mark()  # the plan has copies of its own under way, from places that the next one will write to
        return _Step(self._cache, self._append, wrapper, self._heads, *there)

    def _shape(self, prefill: bool) -> dict[str, Any]:
        dim = {"head_dim_qk" if prefill else "head_dim": self._head_dim}
        dtype = self._cache.keys.dtype
        return dict(
            num_qo_heads=self._heads,
            num_kv_heads=self._kv_heads,
            page_size=self._cache.page_size,
            q_data_type=dtype,
            kv_data_type=dtype,
            **dim,
        )


@dataclass(frozen=True)
class _Step:
    """One step's attention."""

    cache: PagedCache
    append: Callable[..., None]
    wrapper: Any
    heads: int
    indptr: Tensor  # [n + 1] where each stream's pages begin in `indices`
    last_page_len: Tensor  # [n] positions in the last of them, with this step's
    stream: Tensor  # [tokens] which of the n
    positions: Tensor  # [tokens] in that stream
    indices: Tensor  # pages

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write `k`, `v` [tokens, kv_heads, head_dim] into the pages; `q` [tokens, heads, head_dim] looks at its past."""
        assert q.shape[1] == self.heads, "planned for another number of query heads: see CacheShape"
        pages = self.cache.keys[layer], self.cache.values[layer]
        table = self.indices, self.indptr, self.last_page_len
        self.append(k, v, self.stream, self.positions, pages, *table, kv_layout=KV_LAYOUT)
        seen: Tensor = self.wrapper.run(q.contiguous(), pages)
        return seen


def _indptr(lengths: Any) -> NDArray[np.int32]:
    """Lengths [n] of a ragged list's parts -> where they begin and the last one ends [n + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
