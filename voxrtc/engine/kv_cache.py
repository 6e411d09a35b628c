"""The paged key-value pool: who holds which page, and the tensors behind it (PagedAttention, arXiv 2309.06180)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from voxrtc.speechlm.base import HOST, CacheShape


class OutOfPages(Exception):
    """The pool cannot give what was asked; nothing was taken."""


@dataclass(frozen=True)
class Evicted:
    """The pages of a preempted stream, [layers, pages, kv_heads, page_size, head_dim] each."""

    keys: Tensor
    values: Tensor

    @property
    def pages(self) -> int:
        """How many they are."""
        return self.keys.shape[1]


class PagedCache:
    """Keys and values [layers, pages, kv_heads, page_size, head_dim], given out to slots in whole pages.

    They lie on `device`; who holds which page (`table`) is known on the host. With `scratch` there is a slot and a page more
    that nobody is given, for the streams that a decode step is filled up with: all of them are in that slot, the last one.
    """

    def __init__(
        self,
        shape: CacheShape,
        slots: int,
        pages: int,
        page_size: int = 32,
        device: torch.device = HOST,
        dtype: torch.dtype = torch.float32,
        scratch: bool = False,
    ) -> None:
        size = (shape.layers, pages + scratch, shape.kv_heads, page_size, shape.head_dim)
        # takes its memory at once: then no load can make it grow
        self.keys, self.values = (torch.zeros(size, device=device, dtype=dtype) for _ in range(2))
        self.page_size, self.pages = page_size, pages
        self.table = torch.zeros(
            slots + scratch, self.pages_for(shape.positions), dtype=torch.long
        )  # page ids, by slot and order
        self.table[slots:] = pages
        self.scratch = slots if scratch else None
        self._free = list(range(pages))[::-1]  # lowest first, so that few streams lie close together
        self._held: dict[int, list[int]] = {}

    def pages_for(self, positions: int) -> int:
        """Pages that hold `positions`."""
        return -(-positions // self.page_size)

    @property
    def available(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Pages held."""
        return self.pages - len(self._free)

    def held(self, slot: int) -> int:
        """Pages that `slot` holds."""
        return len(self._held.get(slot, ()))

    def grow(self, slot: int, positions: int) -> None:
        """Make sure that `slot` holds pages for its first `positions`. Raises `OutOfPages`."""
        held = self._held.setdefault(slot, [])
        need = self.pages_for(positions) - len(held)
        if need > len(self._free):
            raise OutOfPages(f"{need} pages wanted, {len(self._free)} left")
        for _ in range(need):
            page = self._free.pop()
            self.table[slot, len(held)] = page
            held.append(page)

    def fill(self, slot: int, keys: Tensor, values: Tensor) -> None:
        """Put `keys` and `values` [layers, n, kv_heads, head_dim] into the first positions of `slot`. Raises `OutOfPages`."""
        self.grow(slot, keys.shape[1])
        for cache, new in ((self.keys, keys), (self.values, values)):
            for page, rows in zip(self._held[slot], new.split(self.page_size, dim=1), strict=False):
                cache[:, page, :, : rows.shape[1]] = rows.transpose(1, 2)

    def free(self, slot: int, scrub: bool = False) -> None:
        """Take back everything of `slot`.

        `scrub` after a failure: a kernel may mask what lies behind a stream's end in its last page, but 0 times NaN is
        NaN, so one stream's broken numbers would reach the next holder of its pages.
        """
        if scrub:
            places = self._places(slot)
            self.keys[:, places], self.values[:, places] = 0.0, 0.0
        pages = self._held.pop(slot, [])
        self._free.extend(pages)
        self._free.sort(reverse=True)

    def evict(self, slot: int) -> Evicted:
        """Copy what `slot` holds to the host's memory and take its pages back."""
        pages = self._places(slot)
        evicted = Evicted(self.keys[:, pages].cpu(), self.values[:, pages].cpu())
        self.free(slot)
        return evicted

    def restore(self, slot: int, evicted: Evicted) -> None:
        """Put back, to the bit, what `evict` took. Raises `OutOfPages`."""
        self.grow(slot, evicted.pages * self.page_size)
        pages = self._places(slot)
        self.keys[:, pages] = evicted.keys.to(self.keys.device)
        self.values[:, pages] = evicted.values.to(self.values.device)

    def _places(self, slot: int) -> Tensor:
        """The pages of `slot` as an index on the device."""
        return torch.tensor(self._held.get(slot, []), dtype=torch.long).to(self.keys.device)

    def check_integrity(self) -> None:
        """Every page is free or held once. Called when idle, and by tests."""
        held = [page for pages in self._held.values() for page in pages]
        assert sorted(held + self._free) == list(range(self.pages)), "a page was lost or given twice"
