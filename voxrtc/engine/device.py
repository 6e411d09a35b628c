"""Where a worker computes: which device and numbers the settings mean, and what running beside the host asks of the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from voxrtc.settings import Settings
from voxrtc.speechlm.base import Placement


class DeviceError(Exception):
    """The settings name a device or numbers that are not to be had. The message says what to do."""


def placed(settings: Settings) -> Placement:
    """Where the settings want a model's stages. Raises `DeviceError`."""
    device = chosen_device(settings.device)
    return Placement(device, chosen_dtype(settings.dtype, device), chosen_sound(settings))


def chosen_sound(settings: Settings) -> torch.device:
    """Where they want its detokenizer. Raises `DeviceError`."""
    if settings.detokenizer_device == "auto":
        return chosen_device(settings.device)
    return chosen_device(settings.detokenizer_device, "VOXRTC_DETOKENIZER_DEVICE")


def chosen_device(name: str, setting: str = "VOXRTC_DEVICE") -> torch.device:
    """`auto`, `cpu`, `cuda` or `cuda:N` -> the device. Raises `DeviceError`, which names the setting."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise DeviceError(f"{setting} is {name}, but torch finds no GPU here. Install torch for CUDA, or set it to cpu.")
    device = torch.device("cuda", device.index or 0)
    if device.index >= (count := torch.cuda.device_count()):
        raise DeviceError(f"{setting} is {name}, but there are {count} GPUs, counted from 0.")
    return device


def chosen_dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto`, `float32` or `bfloat16` -> the numbers of the backbone: by default what the device is fastest with."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


class CudaMark:
    """A moment in a CUDA stream. The difference of two is seconds, once both have passed."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)
        self._event.record()

    def __sub__(self, earlier: CudaMark) -> float:
        self._event.synchronize()
        seconds: float = earlier._event.elapsed_time(self._event) / 1e3
        return seconds


class Mark(Protocol):
    """A moment: a reading of the clock, or of the device's own."""

    def __sub__(self, earlier: Any, /) -> float: ...


class Device:
    """That of a stage. `beside`: it computes beside the host, which can prepare the next step meanwhile.

    The detokenizer has a CUDA stream of its own, wherever it is. Between it and the steps only tensors on the host are passed,
    so neither has to wait for the other, and no memory is given back while the other still reads it.
    """

    def __init__(self, device: torch.device, clock: Callable[[], float] = time.monotonic) -> None:
        self.device, self._clock = device, clock
        self.beside, self._cuda = device.type != "cpu", device.type == "cuda"
        self._codec = torch.cuda.Stream(device) if self._cuda else None
        if self._cuda:
            torch.backends.cudnn.allow_tf32 = False  # else convolutions keep 10 bits, and detokenizers promise to be exact

    def chosen(self) -> AbstractContextManager[object]:
        """Within it, what is done on this thread without naming a GPU is done on this one."""
        return torch.cuda.device(self.device) if self._cuda else nullcontext()

    def detokenizing(self) -> AbstractContextManager[object]:
        """Within it, this thread's work goes into the detokenizer's stream."""
        return torch.cuda.stream(self._codec) if self._codec else nullcontext()

    def check(self) -> None:
        """After a failure: raises if nothing can be done on the device any more, as when a kernel has reached beyond its
        memory. What CUDA says then it says to all that follows, until the process ends."""
        if self._cuda:
            torch.cuda.synchronize(self.device)

    def mark(self) -> Mark:
        """This moment, as the device comes to it."""
        return CudaMark() if self._cuda else self._clock()

    def there(self, parts: list[Tensor]) -> list[Tensor]:
        """Tensors [n_i, …] of the host, alike but for n_i -> the same on the device, in one copy."""
        return list(torch.cat(parts).to(self.device).split([len(part) for part in parts])) if self.beside else parts

    def home(self, parts: list[Tensor]) -> list[Tensor]:
        """The same back, when they are there."""
        return list(torch.cat(parts).cpu().split([len(part) for part in parts])) if self.beside else parts
