"""The page pool under random use."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.kv_cache import OutOfPages, PagedCache
from voxrtc.speechlm.base import CacheShape

SHAPE = CacheShape(layers=1, kv_heads=1, head_dim=2, positions=40)


@given(st.data())
def test_pages_are_never_lost_or_shared(data: st.DataObject) -> None:
    cache = PagedCache(SHAPE, slots=6, pages=12, page_size=4)
    sizes: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        slot = data.draw(st.integers(0, 5))
        if slot not in sizes:
            positions = data.draw(st.integers(1, 40))
            free = cache.available
            try:
                cache.reserve(slot, positions)
                sizes[slot] = positions
            except OutOfPages:
                assert cache.pages_for(positions) > free == cache.available
        elif data.draw(st.booleans()):
            cache.grow(slot, data.draw(st.integers(1, sizes[slot])))
        else:
            cache.free(slot)
            del sizes[slot]
        cache.check_integrity()
    for slot in sizes:
        cache.grow(slot, sizes[slot])  # what was promised is there, whoever else holds pages
    cache.check_integrity()
    for slot in sizes:
        cache.free(slot)
    assert cache.used == 0 and cache.available == 12


def test_growing_past_the_promise_is_a_fault() -> None:
    cache = PagedCache(SHAPE, slots=1, pages=4, page_size=4)
    cache.reserve(0, 4)
    with pytest.raises(AssertionError):
        cache.grow(0, 5)


def test_scrubbed_pages_carry_nothing_over() -> None:
    cache = PagedCache(SHAPE, slots=1, pages=2, page_size=4)
    cache.reserve(0, 8)
    cache.grow(0, 8)
    cache.keys.fill_(torch.nan)
    cache.values.fill_(torch.nan)
    cache.free(0, scrub=True)
    assert cache.keys.isfinite().all() and cache.values.isfinite().all()


def test_a_prefix_fills_the_first_positions() -> None:
    cache = PagedCache(SHAPE, slots=2, pages=20, page_size=4)
    cache.reserve(0, 3)
    cache.grow(0, 3)
    cache.reserve(1, 20)
    keys, values = torch.rand(2, 1, 10, 1, 2)
    cache.fill(1, keys, values)
    pages = cache.table[1, :3]
    assert torch.equal(cache.keys[:, pages].flatten(1, 2)[:, :10], keys)
    assert torch.equal(cache.values[:, pages].flatten(1, 2)[:, :10], values)
    assert cache.used == 4 and not cache.keys[:, cache.table[0, 0]].any()
    cache.check_integrity()
