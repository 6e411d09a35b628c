"""Attention over pages against torch's own over whole sequences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine import flashinfer_reference
from voxrtc.engine.attention import Backend, Layout
from voxrtc.engine.cpu_attention import CpuAttention
from voxrtc.engine.flashinfer_attention import FlashInferAttention
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.sdpa_attention import SdpaAttention
from voxrtc.speechlm.base import CacheShape
from voxrtc.speechlm.layers.attention import DenseCausal

SLOTS, POSITIONS, DIM, LAYERS = 5, 150, 8, 2


def by_flashinfer(cache: PagedCache, heads: int) -> Backend:
    return FlashInferAttention(cache, heads, flashinfer_reference)


BACKENDS: dict[str, Callable[[PagedCache, int], Backend]] = {
    "cpu": lambda cache, heads: CpuAttention(cache),
    "sdpa": lambda cache, heads: SdpaAttention(cache),
    "flashinfer": by_flashinfer,
}


def new_cache(heads: int, kv_heads: int, page_size: int, scratch: bool = True) -> PagedCache:
    shape = CacheShape(LAYERS, heads, kv_heads, DIM, POSITIONS)
    return PagedCache(shape, SLOTS, SLOTS * -(-POSITIONS // page_size), page_size, scratch=scratch)


class Rig:
    """A cache and its backend, stepped by hand as the worker does."""

    def __init__(self, name: str, heads: int, kv_heads: int, page_size: int) -> None:
        self.cache = new_cache(heads, kv_heads, page_size)
        self.backend = BACKENDS[name](self.cache, heads)

    def step(self, slots: list[int], starts: list[int], parts: list[list[Tensor]]) -> list[Tensor]:
        """`parts`: of each layer q, k and v [tokens, …] of all streams -> what each layer sees."""
        counts = [len(part) for part in parts[0][0].split(self.counts)]
        for slot, start, count in zip(slots, starts, counts, strict=True):
            self.cache.grow(slot, start + count)
        more = self.backend.width(len(slots)) - len(slots) if set(counts) == {1} else 0
        scratch = self.cache.scratch
        assert scratch is not None
        layout = Layout(slots + [scratch] * more, starts + [0] * more, tuple(counts + [1] * more))
        attention, tokens = self.backend.plan(layout), sum(counts)
        filled = [[torch.cat([x, torch.full_like(x[:1], 7.0).expand(more, -1, -1)]) for x in layer] for layer in parts]
        return [attention.attend(layer, *qkv)[:tokens] for layer, qkv in enumerate(filled)]

    counts: list[int]

    def kept(self, slot: int, positions: int) -> Tensor:
        """Keys and values of a slot's first positions, [2, layers, positions, kv_heads, dim]."""
        pages = self.cache.table[slot, : self.cache.held(slot)]
        both = torch.stack([part[:, pages].transpose(2, 3).flatten(1, 2) for part in (self.cache.keys, self.cache.values)])
        return both[:, :, :positions]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_streams_in_parts_beside_others_see_what_they_see_whole(data: st.DataObject) -> None:
    """Prefill, its continuations and decode mixed at random; slots in any order; all backends, and the same in their caches."""
    page_size = data.draw(st.sampled_from([1, 7, 16, 128]))
    kv_heads = data.draw(st.sampled_from([1, 2, 4]))
    heads = kv_heads * data.draw(st.sampled_from([1, 2, 3]))
    lengths = data.draw(st.lists(st.integers(1, POSITIONS), min_size=1, max_size=SLOTS))
    slots = data.draw(st.permutations(range(SLOTS)))[: len(lengths)]
    rigs = {name: Rig(name, heads, kv_heads, page_size) for name in BACKENDS}
    torch.manual_seed(0)
    qkv = [[[torch.randn(n, h, DIM) for h in (heads, kv_heads, kv_heads)] for n in lengths] for _ in range(LAYERS)]
    seen: dict[str, list[list[list[Tensor]]]] = {name: [[[] for _ in lengths] for _ in range(LAYERS)] for name in rigs}
    done = [0] * len(lengths)
    while left := [i for i, n in enumerate(lengths) if done[i] < n]:
        step = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        decode = data.draw(st.booleans())
        counts = [1 if decode else data.draw(st.integers(1, lengths[i] - done[i])) for i in step]
        starts = [done[i] for i in step]
        parts = [
            [torch.cat([layer[i][x][done[i] : done[i] + n] for i, n in zip(step, counts, strict=True)]) for x in range(3)]
            for layer in qkv
        ]
        for name, rig in rigs.items():
            rig.counts = counts
            for layer, out in enumerate(rig.step([slots[i] for i in step], starts, parts)):
                for i, part in zip(step, out.split(counts), strict=True):
                    seen[name][layer][i].append(part)
        for i, count in zip(step, counts, strict=True):
            done[i] += count
        if decode and data.draw(st.booleans()):
            break
    for i in range(len(lengths)):
        for layer in range(LAYERS):
            if not done[i]:
                continue
            q, k, v = (x[: done[i]] for x in qkv[layer][i])
            whole = DenseCausal().attend(layer, q[None], k[None], v[None])[0]
            for name in rigs:
                assert torch.allclose(torch.cat(seen[name][layer][i]), whole, atol=1e-5), name
        for name, rig in rigs.items():
            assert torch.equal(rig.kept(slots[i], done[i]), rigs["cpu"].kept(slots[i], done[i])), name
