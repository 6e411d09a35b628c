"""Attention over the paged cache: what a worker asks of it, whatever the device.

A backend lives as long as its worker. Once a step the worker has it `plan`, on the host, and every layer then runs with that
plan (`speechlm.layers.attention.Attention`). Which one serves a cache is a matter of device and numbers: see `choose`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from voxrtc.engine.kv_cache import PagedCache
from voxrtc.speechlm.layers.attention import Attention

Integers: TypeAlias = NDArray[np.int64]

FLASH_DTYPES = (torch.bfloat16, torch.float16)  # that FlashInfer has kernels for
FLASH_HEAD_DIMS = (64, 128, 256)


class Layout:
    """The tokens of a step, on the host: stream i, in `slots[i]`, brings `counts[i]` from position `starts[i]` on.

    They lie stream after stream. `positions` and `rows` say where each belongs, `ends` which is a stream's last.
    """

    def __init__(self, slots: Sequence[int], starts: Sequence[int], counts: tuple[int, ...]) -> None:
        self.slots: Integers = np.array(slots)
        self.starts: Integers = np.array(starts)
        self.counts = counts
        self.decode_only = sum(counts) == len(counts)
        self.positions, self.rows, self.ends = self.starts, self.slots, np.arange(len(counts))
        if not self.decode_only:
            spans = [np.arange(start, start + count) for start, count in zip(starts, counts, strict=True)]
            self.positions, self.rows, self.ends = np.concatenate(spans), np.repeat(self.slots, counts), np.cumsum(counts) - 1


class Backend(Protocol):
    """Attention for one worker."""

    fixed: bool  # the numbers of two decode steps of one width and form lie at the same addresses: what CUDA graphs want

    def width(self, streams: int) -> int:
        """How many streams a decode step of so many is filled up to, with ones in `PagedCache.scratch`."""
        ...

    def form(self, layout: Layout) -> int:
        """What else but the width a decode step's work hangs on, beside numbers at fixed addresses."""
        ...

    def plan(self, layout: Layout) -> Attention:
        """Make ready for a step. Its streams hold their pages. The attention is good until the next plan."""
        ...


def sizes(slots: int) -> list[int]:
    """Numbers of streams that decode steps are filled up to: 1, 2, 4, then eights, and all."""
    return sorted({*(size for size in (1, 2, 4) if size < slots), *range(8, slots, 8), slots})


def choose(cache: PagedCache, heads: int) -> Backend:
    """The backend for a cache and for queries of `heads` heads. Imports FlashInfer only where there is a GPU to run it."""
    device, dtype = cache.keys.device, cache.keys.dtype
    if device.type == "cuda" and dtype in FLASH_DTYPES and cache.keys.shape[-1] in FLASH_HEAD_DIMS:
        from voxrtc.engine.flashinfer_attention import FlashInferAttention, installed

        if flashinfer := installed():
            return FlashInferAttention(cache, heads, flashinfer)
    if device.type == "cpu" and dtype == torch.float32:
        from voxrtc.engine.cpu_attention import CpuAttention

        return CpuAttention(cache)
    from voxrtc.engine.sdpa_attention import SdpaAttention

    return SdpaAttention(cache)
