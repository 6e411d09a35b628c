"""How much memory the key-value cache gets."""

from __future__ import annotations

import torch

from voxrtc.machine import free_memory, resident
from voxrtc.speechlm.base import CacheShape, SpeechLM

GPU_SHARE = 0.7  # of what is free once the weights are loaded; the rest is for the steps and the detokenizer
HOST_SHARE = 0.5
CONTEXT = 0.5  # GB of a GPU that CUDA takes for a process, about
GB = 10**9


class TooLittleMemory(Exception):
    """Not even one stream's cache fits. The message says what to do."""


def pages_for(model: SpeechLM, slots: int, page_size: int, gigabytes: float) -> int:
    """Cache pages for `slots` streams of `model` in so much memory; 0: as much as is good and there. Raises `TooLittleMemory`.

    On a GPU as many as all streams need at their longest, on a CPU half of them (`half_of_the_longest`), unless that is more
    than the share of free memory that the cache may have.
    """
    shape, on_gpu = model.cache, model.device.type == "cuda"
    all_at_their_longest = slots * _pages_of_one(shape, page_size)
    wanted = all_at_their_longest if on_gpu or gigabytes else half_of_the_longest(shape, slots, page_size)
    page = page_bytes(shape, page_size, model.dtype)
    free = gigabytes * GB or (GPU_SHARE * _free_on_gpu(model.device) if on_gpu else HOST_SHARE * free_memory())
    pages, least = min(wanted, int(free / page)), _pages_of_one(shape, page_size)
    if pages < least:
        raise TooLittleMemory(
            f"The key-value cache of one stream takes {least * page / GB:.3f} GB; it may have {free / GB:.3f} GB. "
            + ("Set VOXRTC_KV_MEMORY higher." if gigabytes else "Free some memory, or load a smaller model.")
        )
    return pages


def half_of_the_longest(shape: CacheShape, slots: int, page_size: int) -> int:
    """Pages for half of what `slots` streams take at their longest, where hardly any stream ever gets; for one stream whole."""
    return max(_pages_of_one(shape, page_size), slots * _pages_of_one(shape, page_size) // 2)


def page_bytes(shape: CacheShape, page_size: int, dtype: torch.dtype) -> int:
    """Of a page's keys and values in all layers."""
    return 2 * shape.layers * shape.kv_heads * page_size * shape.head_dim * dtype.itemsize


def held(device: torch.device) -> float:
    """GB that this process holds where it computes."""
    return torch.cuda.memory_reserved(device) / GB + CONTEXT if device.type == "cuda" else resident()


def _pages_of_one(shape: CacheShape, page_size: int) -> int:
    return -(-shape.positions // page_size)


def _free_on_gpu(device: torch.device) -> int:
    """Bytes, with what torch holds for itself and does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
