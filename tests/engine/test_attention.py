"""Attention over pages against torch's own over whole sequences."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrtc.engine.attention import PagedAttention
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.speechlm.base import CacheShape
from voxrtc.speechlm.layers.attention import DenseCausal

SHAPE = CacheShape(layers=2, kv_heads=2, head_dim=8, positions=64)
HEADS = 6  # three of which look at the same keys


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_streams_in_parts_beside_others_see_what_they_see_whole(data: st.DataObject) -> None:
    page_size = data.draw(st.sampled_from([1, 4, 7, 64]))
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    cache = PagedCache(SHAPE, slots=4, pages=4 * -(-64 // page_size), page_size=page_size)
    q, k, v = ([torch.randn(n, heads, 8) for n in lengths] for heads in (HEADS, 2, 2))
    seen: list[list[torch.Tensor]] = [[] for _ in lengths]
    done = [0] * len(lengths)
    while (left := [i for i, n in enumerate(lengths) if done[i] < n]) and left:
        step = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        counts = [data.draw(st.integers(1, lengths[i] - done[i])) for i in step]
        for i, count in zip(step, counts, strict=True):
            cache.grow(i, done[i] + count)
        attention = PagedAttention(cache, step, [done[i] for i in step], counts)
        parts = [torch.cat([x[i][done[i] : done[i] + n] for i, n in zip(step, counts, strict=True)]) for x in (q, k, v)]
        for i, part in zip(step, attention.attend(1, *parts).split(counts), strict=True):
            seen[i].append(part)
            done[i] += len(part)
    for i in range(len(lengths)):
        whole = DenseCausal().attend(1, q[i][None], k[i][None], v[i][None])[0]
        assert torch.allclose(torch.cat(seen[i]), whole, atol=1e-5)


def test_numbers_that_are_none_come_out_as_such_and_stay_with_their_stream() -> None:
    cache = PagedCache(SHAPE, slots=2, pages=8, page_size=16)
    cache.grow(0, 1)
    cache.grow(1, 1)
    x = torch.randn(2, 2, 8)
    x[0] = torch.nan
    seen = PagedAttention(cache, [0, 1], [0, 0], [1, 1]).attend(0, x, x, x)
    assert seen[0].isnan().all() and seen[1].isfinite().all()


def test_a_row_alone_has_the_bits_that_it_has_among_others() -> None:
    """Also where queries, keys and values are parts of one tensor, as in a decoder: a single row of it is contiguous."""
    shape = CacheShape(layers=1, kv_heads=2, head_dim=64, positions=64)
    cache = PagedCache(shape, slots=3, pages=12, page_size=16)
    for slot in range(3):
        cache.grow(slot, 21)
        past = torch.randn(20, 4, 64)
        PagedAttention(cache, [slot], [0], [20]).attend(0, past, past[:, :2], past[:, 2:])
    fused = torch.randn(3, 8, 64)

    def seen(slots: list[int]) -> torch.Tensor:
        q, k, v = fused[slots].split([4, 2, 2], dim=1)
        return PagedAttention(cache, slots, [20] * len(slots), [1] * len(slots)).attend(0, q, k, v)

    together = seen([0, 1, 2])
    for slot in range(3):
        assert torch.equal(seen([slot])[0], together[slot])
