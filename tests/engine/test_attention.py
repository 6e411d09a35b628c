"""Attention over pages against torch's own over whole sequences."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import numba
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine import flashinfer_reference
from voxrtc.engine import cpu_attention, flashinfer_attention
from voxrtc.engine.attention import Backend, Layout, choose, sizes
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


class Rig:
    """A cache and its backend, stepped by hand as the worker does."""

    counts: list[int]  # tokens of each stream in the next step

    def __init__(self, name: str, heads: int, kv_heads: int, page_size: int, dtype: torch.dtype = torch.float32) -> None:
        shape, pages = CacheShape(LAYERS, heads, kv_heads, DIM, POSITIONS), SLOTS * -(-POSITIONS // page_size)
        self.cache = PagedCache(shape, SLOTS, pages, page_size, dtype=dtype, scratch=True)
        self.backend = BACKENDS[name](self.cache, heads)

    def step(self, slots: list[int], starts: list[int], parts: list[list[Tensor]]) -> list[Tensor]:
        """`parts`: of each layer q, k and v [tokens, …] of all streams -> what each layer sees."""
        counts = self.counts
        for slot, start, count in zip(slots, starts, counts, strict=True):
            self.cache.grow(slot, start + count)
        more = self.backend.width(len(slots)) - len(slots) if set(counts) == {1} else 0
        scratch = self.cache.scratch
        assert scratch is not None
        layout = Layout(slots + [scratch] * more, starts + [0] * more, tuple(counts + [1] * more))
        attention, tokens = self.backend.plan(layout), sum(counts)
        filled = [[torch.cat([x, torch.full_like(x[:1], 7.0).expand(more, -1, -1)]) for x in layer] for layer in parts]
        return [attention.attend(layer, *qkv)[:tokens] for layer, qkv in enumerate(filled)]

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


def test_numbers_that_are_none_come_out_as_such_and_stay_with_their_stream() -> None:
    for name in BACKENDS:
        rig = Rig(name, 2, 2, 16)
        rig.counts = [1, 1]
        x = torch.randn(2, 2, DIM)
        x[0] = torch.nan
        [seen] = rig.step([0, 1], [0, 0], [[x, x, x]])
        assert seen[0].isnan().all() and seen[1].isfinite().all(), name


def test_pages_that_a_stream_held_before_are_not_looked_at() -> None:
    """A slot's row of the table is stale behind its own pages, which may be another's by now, and that one broken."""
    for name in BACKENDS:
        rig = Rig(name, 2, 2, 16)
        rig.cache.grow(0, 40)
        stale = rig.cache.table[0, 1:3].clone()
        rig.cache.free(0)
        rig.cache.keys[:, stale] = rig.cache.values[:, stale] = torch.nan
        rig.counts = [1, 20]
        x = torch.randn(21, 2, DIM)
        rig.cache.grow(0, 1)
        rig.cache._free = [page for page in rig.cache._free if page not in stale]
        [seen] = rig.step([0, 1], [0, 0], [[x, x, x]])
        assert seen.isfinite().all(), name


def test_what_fills_a_step_up_touches_nobodys_pages() -> None:
    rig = Rig("flashinfer", 2, 2, 16)
    for slot in range(SLOTS):
        rig.cache.grow(slot, 10)
    before = rig.cache.keys.clone()
    rig.counts = [1, 1, 1]
    ones = torch.ones(3, 2, DIM)
    rig.step([4, 0, 2], [9, 3, 0], [[ones, ones, ones]])
    changed = {(int(page), int(place)) for page, place in (rig.cache.keys != before)[0, :, 0, :, 0].nonzero()}
    own = {(int(rig.cache.table[slot, 0]), place) for slot, place in ((4, 9), (0, 3), (2, 0))}
    assert changed == {*own, (rig.cache.pages, 0)}, "three tokens, and the scratch page that filled them up to four"
    assert rig.cache.scratch == SLOTS and rig.cache.table[SLOTS].eq(rig.cache.pages).all()
    rig.cache.check_integrity()


def test_steps_of_a_size_find_their_numbers_at_the_same_addresses() -> None:
    """Which is what a CUDA graph that was captured with them needs."""
    rig = Rig("flashinfer", 2, 2, 16)
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    plan = rig.backend.plan

    def spy(layout: Layout) -> object:
        step = plan(layout)
        parts = (step.indptr, step.last_page_len, step.stream, step.positions, step.indices)  # type: ignore[attr-defined]
        wrapper = step.wrapper  # type: ignore[attr-defined]
        addresses = tuple(part.data_ptr() for part in (*parts, wrapper._indptr, wrapper._last_page_len, wrapper._room))
        assert all(address % 16 == 0 for address in addresses)
        seen.setdefault((len(layout.counts),), set()).add(addresses)
        return step

    rig.backend.plan = spy  # type: ignore[method-assign,assignment]
    for position in range(40):
        streams = [slot for slot in range(SLOTS) if position % (slot + 1) == 0]
        rig.counts = [1] * len(streams)
        x = torch.randn(len(streams), 2, DIM)
        rig.step(streams, [position] * len(streams), [[x, x, x]])
    assert set(seen) == {(1,), (2,), (4,), (5,)} == {(size,) for size in sizes(SLOTS)}
    assert all(len(addresses) == 1 for addresses in seen.values())


def test_torchs_steps_of_a_form_find_their_numbers_at_the_same_addresses() -> None:
    """Forms are widths, and pages that a stream is taken to hold: powers of two, or the most that one can."""
    rig = Rig("sdpa", 2, 2, 16)
    seen: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    plan = rig.backend.plan

    def spy(layout: Layout) -> object:
        step = plan(layout)
        parts = (step.pages, step.page, step.offset, step.position, step.places)  # type: ignore[attr-defined]
        assert step.pages.shape == (len(layout.counts), rig.backend.form(layout))  # type: ignore[attr-defined]
        seen.setdefault((len(layout.counts), rig.backend.form(layout)), set()).add(tuple(part.data_ptr() for part in parts))
        return step

    rig.backend.plan = spy  # type: ignore[method-assign,assignment]
    for position in range(POSITIONS):
        streams = [slot for slot in range(SLOTS) if position % (slot + 1) == 0]
        rig.counts = [1] * len(streams)
        x = torch.randn(len(streams), 2, DIM)
        rig.step(streams, [position] * len(streams), [[x, x, x]])
    assert {width for width, _ in seen} == {1, 2, 4, 5} and {pages for _, pages in seen} == {1, 2, 4, 8, 10}
    assert all(len(addresses) == 1 for addresses in seen.values())


def test_sizes_that_decode_steps_are_filled_up_to() -> None:
    assert sizes(1) == [1] and sizes(3) == [1, 2, 3] and sizes(8) == [1, 2, 4, 8] and sizes(20) == [1, 2, 4, 8, 16, 20]
    assert sizes(64) == [1, 2, 4, *range(8, 65, 8)]


@pytest.mark.parametrize(("dtype", "kind"), [(torch.float32, CpuAttention), (torch.bfloat16, SdpaAttention)])
def test_a_cpu_is_served_by_what_knows_its_numbers(dtype: torch.dtype, kind: type) -> None:
    cache = PagedCache(CacheShape(1, 2, 2, DIM, 16), 2, 4, 8, dtype=dtype)
    assert isinstance(choose(cache, 2), kind)


def gpu_cache(dtype: torch.dtype, head_dim: int) -> PagedCache:
    """What `choose` looks at, of a cache that is not there."""
    keys = SimpleNamespace(device=torch.device("cuda", 0), dtype=dtype, shape=(1, 1, 1, 1, head_dim))
    return SimpleNamespace(keys=keys, scratch=None)  # type: ignore[return-value]


def test_a_gpu_is_served_by_flashinfer_where_that_has_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", flashinfer_reference)
    monkeypatch.setattr(flashinfer_attention, "FlashInferAttention", lambda cache, heads, module: (heads, module))
    assert choose(gpu_cache(torch.bfloat16, 128), 24) == (24, flashinfer_reference)
    assert isinstance(choose(gpu_cache(torch.bfloat16, 80), 24), SdpaAttention)
    assert isinstance(choose(gpu_cache(torch.float32, 128), 24), SdpaAttention)


def test_a_gpu_without_flashinfer_is_served_and_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    assert isinstance(choose(gpu_cache(torch.bfloat16, 128), 24), SdpaAttention)
    assert "requirements-cuda.txt" in caplog.text


def test_streams_in_bfloat16_see_about_the_same() -> None:
    torch.manual_seed(0)
    seen = {}
    for name in ("sdpa", "flashinfer"):
        rig = Rig(name, 4, 2, 16, torch.bfloat16)
        rig.counts = [30, 5]
        torch.manual_seed(1)
        [seen[name]] = rig.step([3, 1], [0, 0], [[torch.randn(35, heads, DIM).bfloat16() for heads in (4, 2, 2)]])
    assert torch.allclose(seen["sdpa"].float(), seen["flashinfer"].float(), atol=2e-2)


def test_a_row_alone_has_the_bits_that_it_has_among_others() -> None:
    """Also where queries, keys and values are parts of one tensor, as in a decoder: a single row of it is contiguous."""
    cache = PagedCache(CacheShape(1, 4, 2, 64, 64), slots=3, pages=12, page_size=16)
    backend = CpuAttention(cache)
    for slot in range(3):
        cache.grow(slot, 21)
        past = torch.randn(20, 8, 64)
        backend.plan(Layout([slot], [0], (20,))).attend(0, past[:, :4], past[:, 4:6], past[:, 6:])
    fused = torch.randn(3, 8, 64)

    def seen(slots: list[int]) -> Tensor:
        q, k, v = fused[slots].split([4, 2, 2], dim=1)
        return backend.plan(Layout(slots, [20] * len(slots), (1,) * len(slots))).attend(0, q, k, v)

    together = seen([0, 1, 2])
    for slot in range(3):
        assert torch.equal(seen([slot])[0], together[slot])


def test_where_nothing_can_be_written_the_loop_is_compiled_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba refuses to keep what it compiled where it finds no place for it."""

    def njit(cache: bool = False, **options: object):  # type: ignore[no-untyped-def]
        if cache:
            raise RuntimeError("no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(cpu_attention, "njit", njit)
    assert cpu_attention._compiled()(lambda x: x + 1)(1) == 2
