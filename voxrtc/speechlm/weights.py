"""Tensors on disk -> modules, every one accounted for."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn


class WeightsError(Exception):
    """A checkpoint that does not fit its model; the message names the file and the tensors."""


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, in float32. Raises `WeightsError`."""
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except FileNotFoundError as missing:
        raise WeightsError(f"{path} is missing. Check the model's folder.") from missing
    except SafetensorError as broken:
        raise WeightsError(f"{path} is not a whole safetensors file ({broken}). Fetch it again.") from broken


def tensors_under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load_module(module: nn.Module, tensors: dict[str, Tensor], source: Path) -> None:
    """Fill `module`. A missing, surplus or misshaped tensor is named. Raises `WeightsError`."""
    wanted = module.state_dict()
    faults = [f"missing {name}" for name in wanted.keys() - tensors.keys()]
    faults += [f"surplus {name}" for name in tensors.keys() - wanted.keys()]
    faults += [
        f"{name} is {list(tensors[name].shape)}, wanted {list(wanted[name].shape)}"
        for name in wanted.keys() & tensors.keys()
        if tensors[name].shape != wanted[name].shape
    ]
    if faults:
        raise WeightsError(f"{source} does not fit: {'; '.join(sorted(faults)[:8])}{' …' if len(faults) > 8 else ''}")
    with torch.no_grad():
        module.load_state_dict(tensors)


class Checkpoint:
    """Tensors of a file that are taken by name until none is left, for modules that do not keep the file's layout.

    What is wrong is collected, so that one error can name it all: `finish`.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises `WeightsError`."""
        self.path = path
        self._left = read_safetensors(path)
        self._faults: list[str] = []

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor `name`, which must be of this shape; zeros in place of one that is missing or of another."""
        tensor = self._left.pop(name, None)
        if tensor is not None and tensor.shape == shape:
            return tensor
        self._faults.append(f"missing {name}" if tensor is None else f"{name} is {list(tensor.shape)}, wanted {list(shape)}")
        return torch.zeros(shape)

    def fill(self, name: str, parameter: Tensor) -> None:
        """Put the tensor `name`, which must have its shape, into `parameter`."""
        with torch.no_grad():
            parameter.copy_(self.take(name, *parameter.shape))

    def finish(self) -> None:
        """Raise `WeightsError` unless everything fitted and nothing is left over."""
        faults = sorted(self._faults + [f"surplus {name}" for name in self._left])
        if faults:
            raise WeightsError(f"{self.path} does not fit: {'; '.join(faults[:8])}{' …' if len(faults) > 8 else ''}")
