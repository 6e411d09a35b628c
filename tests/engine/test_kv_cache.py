"""The page pool under random use."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.kv_cache import Evicted, OutOfPages, PagedCache
from voxrtc.speechlm.base import CacheShape

SHAPE = CacheShape(layers=1, heads=1, kv_heads=1, head_dim=2, positions=40)


@given(st.data())
def test_pages_are_never_lost_or_shared(data: st.DataObject) -> None:
    cache = PagedCache(SHAPE, slots=6, pages=12, page_size=4)
    evicted: dict[int, Evicted] = {}
    for _ in range(data.draw(st.integers(1, 60))):
        slot, action = data.draw(st.integers(0, 5)), data.draw(st.sampled_from(["grow", "grow", "free", "evict"]))
        held, free = cache.held(slot), cache.available
        if slot in evicted:
            if evicted[slot].pages <= free:
                cache.restore(slot, evicted[slot])
                assert cache.held(slot) == evicted.pop(slot).pages
        elif action == "grow":
            positions = data.draw(st.integers(1, 40))
            try:
                cache.grow(slot, positions)
                assert cache.held(slot) == max(held, cache.pages_for(positions))
            except OutOfPages:
                assert cache.pages_for(positions) - held > free == cache.available and cache.held(slot) == held
        elif action == "free" or not held:
            cache.free(slot)
            assert cache.available == free + held
        else:
            evicted[slot] = cache.evict(slot)
            assert cache.available == free + held
        cache.check_integrity()
    for slot in range(6):
        cache.free(slot)
    assert cache.used == 0 and cache.available == 12


def test_what_was_evicted_comes_back_to_the_bit() -> None:
    cache = PagedCache(SHAPE, slots=2, pages=3, page_size=4)
    cache.grow(0, 7)
    cache.keys.copy_(torch.randn(cache.keys.shape))
    cache.values.copy_(torch.randn(cache.values.shape))
    before = [part[:, cache.table[0, :2]].clone() for part in (cache.keys, cache.values)]
    evicted = cache.evict(0)
    cache.grow(1, 4)  # somebody else has the first page meanwhile
    cache.keys.zero_()
    cache.restore(0, evicted)
    after = [part[:, cache.table[0, :2]] for part in (cache.keys, cache.values)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_scrubbed_pages_carry_nothing_over() -> None:
    cache = PagedCache(SHAPE, slots=1, pages=2, page_size=4)
    cache.grow(0, 8)
    cache.keys.fill_(torch.nan)
    cache.values.fill_(torch.nan)
    cache.free(0, scrub=True)
    assert cache.keys.isfinite().all() and cache.values.isfinite().all()


def test_a_prefix_fills_the_first_positions() -> None:
    cache = PagedCache(SHAPE, slots=2, pages=20, page_size=4)
    cache.grow(0, 3)
    keys, values = torch.rand(2, 1, 10, 1, 2)
    cache.fill(1, keys, values)
    pages = cache.table[1, :3]
    assert torch.equal(cache.keys[:, pages].transpose(2, 3).flatten(1, 2)[:, :10], keys)
    assert torch.equal(cache.values[:, pages].transpose(2, 3).flatten(1, 2)[:, :10], values)
    assert cache.used == 4 and not cache.keys[:, cache.table[0, 0]].any()
    cache.check_integrity()
