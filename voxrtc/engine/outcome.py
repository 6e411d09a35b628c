"""What a step gave, on its way from the device to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from voxrtc.speechlm.base import Frames

Read = tuple[list[bool], Tensor, list[bool]]


class Outcome(Protocol):
    """A step's numbers."""

    def read(self) -> Read:
        """Whether each of n streams has numbers; the frames [m, width] of those asked for one, and whether they were the last.

        Waits until the step is done.
        """
        ...


@dataclass(frozen=True)
class Here:
    """Of a step on a CPU, which is done."""

    healthy: Tensor  # [n]
    frames: Frames | None

    def read(self) -> Read:
        if self.frames is None:
            return self.healthy.tolist(), torch.empty(0), []
        return self.healthy.tolist(), self.frames.codes, self.frames.last.tolist()


class Sent:
    """Of a step on another device: all in one copy, which follows the step at once and not when somebody asks for it.

    A copy made later would wait for the next step too, which is under way by then.
    """

    def __init__(self, healthy: Tensor, frames: Frames | None) -> None:
        self._shape = (0, 0) if frames is None else (len(frames.codes), frames.codes.shape[1])
        parts = [healthy] if frames is None else [frames.codes.flatten(), frames.last, healthy]
        packed = torch.cat([part.to(parts[0].dtype) for part in parts])
        self._packed = packed.to("cpu", non_blocking=True)  # pinned by torch, as the copy does not block
        self._there = None
        if packed.device.type == "cuda":
            self._there = torch.cuda.Event()
            self._there.record()

    def read(self) -> Read:
        if self._there:
            self._there.synchronize()
        count, width = self._shape
        codes, last, healthy = self._packed.tensor_split([count * width, count * width + count])
        return healthy.bool().tolist(), codes.view(count, width), last.bool().tolist()
