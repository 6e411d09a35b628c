"""What FlashInfer 0.6 documents of the calls that we make, in plain torch and on any device: for tests without a GPU.

It is written from the documentation of `append_paged_kv_cache`, of the two wrappers and of the page table's layout, and it is
stricter than the kernels: what they would read or write out of bounds is an assertion here. Of the wrappers' arguments only
those that we use are there.
"""

from __future__ import annotations

import torch
from torch import Tensor

Pages = tuple[Tensor, Tensor]  # keys and values [pages, kv_heads, page_size, head_dim], layout "HND"


def append_paged_kv_cache(
    append_key: Tensor,
    append_value: Tensor,
    batch_indices: Tensor,
    positions: Tensor,
    paged_kv_cache: Pages,
    kv_indices: Tensor,
    kv_indptr: Tensor,
    kv_last_page_len: Tensor,
    kv_layout: str = "NHD",
) -> None:
    """Token i goes to `positions[i]` of stream `batch_indices[i]`, whose pages, with room for it, are in the table already."""
    size = _check_table(paged_kv_cache, kv_indices, kv_indptr, kv_last_page_len, kv_layout)
    keys, values = paged_kv_cache
    for new in (append_key, append_value):
        assert new.dim() == 3 and new.shape[1:] == (keys.shape[1], keys.shape[3]) and new.stride(-1) == 1
        assert new.dtype == keys.dtype and new.device == keys.device
    for numbers in (batch_indices, positions):
        _check_integers(numbers, append_key.device)
        assert numbers.shape == append_key.shape[:1]
    lengths, first, pages = _lengths(kv_indptr, kv_last_page_len, size), _numbers(kv_indptr), _numbers(kv_indices)
    for i, (stream, position) in enumerate(zip(_numbers(batch_indices), _numbers(positions), strict=True)):
        assert 0 <= stream < len(lengths) and 0 <= position < lengths[stream], "not in the pages of its stream"
        page = pages[first[stream] + position // size]
        keys[page, :, position % size], values[page, :, position % size] = append_key[i], append_value[i]


class _Wrapper:
    """What both have in common: plans are good for a step, and refer to buffers that must be as they were when it runs."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str) -> None:
        assert float_workspace_buffer.dtype == torch.uint8 and float_workspace_buffer.data_ptr() % 16 == 0
        self.device, self._layout = float_workspace_buffer.device, kv_layout
        self._planned = False

    def _take(
        self, q_heads: int, kv_heads: int, head_dim: int, page_size: int, q_type: torch.dtype, kv_type: torch.dtype
    ) -> None:
        assert q_heads % kv_heads == 0
        self._q, self._pages = (q_heads, head_dim, q_type), (kv_heads, page_size, head_dim, kv_type)
        self._planned = True

    def _see(self, q: Tensor, cache: Pages, queries: list[int], causal: bool) -> Tensor:
        assert self._planned, "run before plan"
        size = _check_table(cache, self._indices, self._indptr, self._last_page_len, self._layout)
        assert (*q.shape[1:], q.dtype) == self._q and (*cache[0].shape[1:], cache[0].dtype) == self._pages
        assert len(q) == queries[-1] and q.device == self.device and q.is_contiguous()
        out, first = torch.empty_like(q), _numbers(self._indptr)
        for i, length in enumerate(_lengths(self._indptr, self._last_page_len, size)):
            pages = self._indices[first[i] : first[i + 1]]
            # [positions, kv_heads, head_dim]; a group of query heads looks at one of them
            k, v = (part[pages].transpose(1, 2).flatten(0, 1)[:length].float() for part in cache)
            part = q[queries[i] : queries[i + 1]].float().unflatten(1, (k.shape[1], -1))
            scores = torch.einsum("qhgd,khd->hgqk", part, k) * q.shape[-1] ** -0.5
            if causal:  # the last query is at the last position
                place = torch.arange(len(part), device=q.device) + length - len(part)
                scores = scores.masked_fill(torch.arange(length, device=q.device) > place[:, None], -torch.inf)
            seen = torch.einsum("hgqk,khd->qhgd", scores.softmax(-1), v)
            out[queries[i] : queries[i + 1]] = seen.flatten(1, 2).to(q.dtype)
        return out

    _indices: Tensor
    _indptr: Tensor
    _last_page_len: Tensor


class BatchPrefillWithPagedKVCacheWrapper(_Wrapper):
    """Without CUDA graphs: the numbers are copied where they are not on the device yet."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        super().__init__(float_workspace_buffer, kv_layout)

    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool = False,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype = torch.float16,
    ) -> None:
        self._indptr, self._indices = paged_kv_indptr.to(self.device), paged_kv_indices.to(self.device)
        self._last_page_len = paged_kv_last_page_len.to(self.device)
        _check_integers(qo_indptr, qo_indptr.device)
        self._queries = _numbers(qo_indptr)
        assert self._queries[0] == 0 and len(self._queries) == len(self._indptr)
        counts = [b - a for a, b in zip(self._queries, self._queries[1:], strict=False)]
        lengths = _lengths(paged_kv_indptr, paged_kv_last_page_len, page_size)
        assert all(0 < count <= length for count, length in zip(counts, lengths, strict=True))
        self._causal = causal
        self._take(num_qo_heads, num_kv_heads, head_dim_qk, page_size, q_data_type, kv_data_type)

    def run(self, q: Tensor, paged_kv_cache: Pages) -> Tensor:
        """[queries, heads, head_dim], both ways."""
        return self._see(q, paged_kv_cache, self._queries, self._causal)


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    """With CUDA graphs: a fixed number of streams, whose numbers are copied into the buffers that were given."""

    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: Tensor | None = None,
        paged_kv_indices_buffer: Tensor | None = None,
        paged_kv_last_page_len_buffer: Tensor | None = None,
    ) -> None:
        super().__init__(float_workspace_buffer, kv_layout)
        assert use_cuda_graph and paged_kv_indptr_buffer is not None and paged_kv_indices_buffer is not None
        assert paged_kv_last_page_len_buffer is not None
        self.streams = len(paged_kv_last_page_len_buffer)
        assert len(paged_kv_indptr_buffer) == self.streams + 1
        for buffer in (paged_kv_indptr_buffer, paged_kv_indices_buffer, paged_kv_last_page_len_buffer):
            _check_integers(buffer, self.device)
        self._indptr, self._room = paged_kv_indptr_buffer, paged_kv_indices_buffer
        self._last_page_len = paged_kv_last_page_len_buffer

    def plan(
        self,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype = torch.float16,
    ) -> None:
        assert len(last_page_len) == self.streams, "the number of streams is fixed"
        assert len(indices) <= len(self._room)
        self._indptr.copy_(indptr)
        self._last_page_len.copy_(last_page_len)
        self._room[: len(indices)].copy_(indices)
        self._indices = self._room[: len(indices)]
        self._take(num_qo_heads, num_kv_heads, head_dim, page_size, q_data_type, kv_data_type)

    def run(self, q: Tensor, paged_kv_cache: Pages) -> Tensor:
        """[streams, heads, head_dim], both ways."""
        return self._see(q, paged_kv_cache, list(range(self.streams + 1)), causal=False)


def _check_table(cache: Pages, indices: Tensor, indptr: Tensor, last_page_len: Tensor, layout: str) -> int:
    """-> the page size."""
    keys, values = cache
    assert layout == "HND", "the layout of our pool"
    assert keys.dim() == 4 and keys.shape == values.shape and keys.stride() == values.stride() and keys.dtype == values.dtype
    for numbers in (indices, indptr, last_page_len):
        _check_integers(numbers, keys.device)
    assert len(indptr) == len(last_page_len) + 1 and _numbers(indptr)[:: len(last_page_len)] == [0, len(indices)]
    assert (indptr.diff() > 0).all(), "a stream without pages"
    assert ((indices >= 0) & (indices < len(keys))).all(), "no page of the pool"
    assert ((last_page_len >= 1) & (last_page_len <= keys.shape[2])).all()
    return keys.shape[2]


def _check_integers(numbers: Tensor, device: torch.device) -> None:
    assert numbers.dim() == 1 and numbers.dtype == torch.int32 and numbers.is_contiguous() and numbers.device == device


def _lengths(indptr: Tensor, last_page_len: Tensor, page_size: int) -> list[int]:
    """Positions of each stream."""
    return _numbers((indptr.diff() - 1) * page_size + last_page_len)


def _numbers(integers: Tensor) -> list[int]:
    numbers: list[int] = integers.cpu().tolist()
    return numbers
