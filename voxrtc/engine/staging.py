"""The way of a step's small numbers from the host to the device: one asynchronous copy, into memory that never moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

ALIGN = 16  # bytes at which each part begins, as kernels like it


class Staging:
    """A place on the host and one of the same size on the device.

    Parts of the same lengths come to lie at the same addresses each time, which is what a captured CUDA graph needs. On a GPU
    the host's place is pinned, so nobody waits for the copy, and `send` sees to it that the one before has been made.
    """

    def __init__(self, size: int, parts: int, dtype: torch.dtype, device: torch.device) -> None:
        """Room for `size` integers in at most `parts` parts."""
        self._step = ALIGN // dtype.itemsize
        room, cuda = size + parts * self._step, device.type == "cuda"
        self._host = torch.empty(room, dtype=dtype, pin_memory=cuda)
        self._numbers: NDArray[Any] = self._host.numpy()
        self._device = torch.empty(room, dtype=dtype, device=device)
        self._copied = torch.cuda.Event() if cuda else None

    def places(self, *lengths: int) -> list[Tensor]:
        """Where on the device parts of these lengths come to lie."""
        return [self._device[span] for span in self._spans(lengths)]

    def send(self, *parts: NDArray[Any]) -> list[Tensor]:
        """Integers [any] each -> the same on the device, good until the next call."""
        if self._copied:
            self._copied.synchronize()
        spans = self._spans([len(part) for part in parts])
        for span, part in zip(spans, parts, strict=True):
            self._numbers[span] = part
        end = spans[-1].stop
        self._device[:end].copy_(self._host[:end], non_blocking=True)
        self.mark()
        return [self._device[span] for span in spans]

    def mark(self) -> None:
        """The next `send` waits until the device is done with what it was given so far."""
        if self._copied:
            self._copied.record()

    def _spans(self, lengths: Sequence[int]) -> list[slice]:
        spans, start = [], 0
        for length in lengths:
            spans.append(slice(start, start + length))
            start = -(-(start + length) // self._step) * self._step
        return spans
