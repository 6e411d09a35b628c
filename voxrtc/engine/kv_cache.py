"""The paged key-value pool: who holds which page, and the tensors behind it (PagedAttention, arXiv 2309.06180)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from voxrtc.speechlm.base import CacheShape


class OutOfPages(Exception):
    """The pool cannot give what was asked; nothing was taken."""


class PagedCache:
    """Keys and values [layers, pages, page_size, kv_heads, head_dim], given out to slots in whole pages."""

    def __init__(self, shape: CacheShape, slots: int, pages: int, page_size: int = 32) -> None:
        size = (shape.layers, pages, page_size, shape.kv_heads, shape.head_dim)
        # numpy's zeros take memory from the machine when they are written to, torch's at once.
        self.keys, self.values = (torch.from_numpy(np.zeros(size, np.float32)) for _ in range(2))
        self.page_size, self.pages = page_size, pages
        self.table = torch.zeros(slots, self.pages_for(shape.positions), dtype=torch.long)  # page ids, by slot and order
        self._free = list(range(pages))[::-1]  # lowest first, so that few streams lie close together
        self._held: dict[int, list[int]] = {}
        self._reserved: dict[int, int] = {}

    def pages_for(self, positions: int) -> int:
        """Pages that hold `positions`."""
        return -(-positions // self.page_size)

    @property
    def available(self) -> int:
        """Pages neither held nor promised to anyone."""
        return self.pages - sum(self._reserved.values())

    @property
    def used(self) -> int:
        """Pages held."""
        return self.pages - len(self._free)

    def reserve(self, slot: int, positions: int) -> None:
        """Promise `slot` room for `positions`, so that it can never run dry half way. Raises `OutOfPages`."""
        assert slot not in self._reserved, f"slot {slot} has a reservation already"
        need = self.pages_for(positions)
        if need > self.available:
            raise OutOfPages(f"{need} pages wanted, {self.available} left")
        self._reserved[slot], self._held[slot] = need, []

    def grow(self, slot: int, positions: int) -> None:
        """Make sure that `slot` holds pages for its first `positions`."""
        held = self._held[slot]
        while len(held) < self.pages_for(positions):
            assert len(held) < self._reserved[slot], f"slot {slot} grew past its reservation"
            page = self._free.pop()
            self.table[slot, len(held)] = page
            held.append(page)

    def fill(self, slot: int, keys: Tensor, values: Tensor) -> None:
        """Put `keys` and `values` [layers, n, kv_heads, head_dim] into the first positions of `slot`."""
        count = keys.shape[1]
        self.grow(slot, count)
        for number, page in enumerate(self._held[slot]):
            rows = slice(number * self.page_size, min(count, (number + 1) * self.page_size))
            size = rows.stop - rows.start
            self.keys[:, page, :size], self.values[:, page, :size] = keys[:, rows], values[:, rows]

    def free(self, slot: int, scrub: bool = False) -> None:
        """Take back everything of `slot`.

        `scrub` after a failure: attention masks what lies behind a stream's end, but 0 times NaN is NaN, so one stream's
        broken numbers would reach the next holder of its pages.
        """
        pages = self._held.pop(slot)
        if scrub:
            self.keys[:, pages], self.values[:, pages] = 0.0, 0.0
        self._free.extend(pages)
        self._free.sort(reverse=True)
        del self._reserved[slot]

    def check_integrity(self) -> None:
        """Every page is free or held once, and nobody holds more than was reserved. Called when idle, and by tests."""
        held = [page for pages in self._held.values() for page in pages]
        assert sorted(held + self._free) == list(range(self.pages)), "a page was lost or given twice"
        assert self._held.keys() == self._reserved.keys(), "pages are held without a reservation"
        assert all(len(pages) <= self._reserved[slot] for slot, pages in self._held.items())
