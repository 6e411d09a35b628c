"""Sliding windows over many streams at once: the one pattern behind every streamed stage of Lark's detokenizer.

A stage that looks at `size` consecutive rows keeps a stream's last `size - 1` rows and works on a window as soon as all
of it is there: a valid convolution over what was kept and what is new. Padding is data too. The rows that a
whole-utterance computation pads with stand in `Window.rows` from the start, or are pushed behind the last row, so a
streamed result equals the whole one by construction. Streams of any lengths are laid end to end, never padded to a
common length: one operation serves all of them and computes nothing that is thrown away.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(slots=True)
class Window:
    """The rows of one stream, [<= size - 1, ...], that one stage still needs."""

    size: int
    rows: Tensor


class Windows(NamedTuple):
    """All rows after a push, stream after stream, and where in them the windows begin that it completed."""

    rows: Tensor  # [any, ...]
    first: Tensor  # [sum(counts)]
    counts: tuple[int, ...]  # windows of each stream
    size: int

    def gather(self) -> Tensor:
        """The windows themselves, [sum(counts), size, ...]."""
        return self.rows[self.first[:, None] + torch.arange(self.size, device=self.first.device)]


def push(windows: Sequence[Window], new: Sequence[Tensor]) -> Windows:
    """Append `new[i]` [n_i, ...] to stream i; return the windows that this completes and keep what later ones need."""
    size = windows[0].size
    joined = [torch.cat((window.rows, rows)) for window, rows in zip(windows, new, strict=True)]
    for window, rows in zip(windows, joined, strict=True):
        window.rows = rows[max(0, len(rows) - size + 1) :].clone()  # a slice would keep all of `rows` alive
    lengths = tuple(map(len, joined))
    counts = tuple(max(0, n - size + 1) for n in lengths)
    rows = torch.cat(joined)
    return Windows(rows, _first(lengths, counts, rows.device), counts, size)


@lru_cache(maxsize=64)
def _first(lengths: tuple[int, ...], counts: tuple[int, ...], device: torch.device) -> Tensor:
    """The first row of every complete window when streams of these `lengths` lie end to end.

    Streams that decode in step give every layer the same lengths, hence the cache.
    """
    ends = itertools.accumulate(lengths)
    parts = [torch.arange(count) + end - length for end, length, count in zip(ends, lengths, counts, strict=True)]
    return torch.cat(parts).to(device)
