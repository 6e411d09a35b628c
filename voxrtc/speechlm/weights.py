"""Tensors on disk -> modules, every one accounted for.

A folder is laid out as Hugging Face's libraries write it: `config.json` beside `model.safetensors`, or beside the shards that
`model.safetensors.index.json` lists, or beside `pytorch_model.bin`. Files are read, never run: a pickle may hold tensors only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

SINGLE, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
NORMED = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
TOLD = 8  # faults that a message lists


class WeightsError(Exception):
    """A checkpoint that does not fit its model; the message names the file and the tensors."""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises `WeightsError`."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as missing:
        raise _missing(path) from missing
    except ValueError as broken:
        raise WeightsError(f"{path} is not JSON ({broken}). Fetch it again.") from broken


def read_tokenizer(path: Path) -> Tokenizer:
    """A `tokenizer.json`. Raises `WeightsError`."""
    try:
        return Tokenizer.from_file(str(path))
    except Exception as broken:  # the library raises nothing more precise
        raise WeightsError(f"{path} cannot be read ({broken}). Fetch it again.") from broken


def read_folder(folder: Path, dtype: torch.dtype = torch.float32, index: str = INDEX) -> dict[str, Tensor]:
    """All tensors of a folder, in whichever of the three layouts it has, as `dtype`. Raises `WeightsError`.

    `index` is how the list of shards is called where the usual name is not it.
    """
    if (folder / index).exists():
        return _read_shards(folder / index, dtype)
    if (folder / PICKLE).exists() and not (folder / SINGLE).exists():
        return read_pickle(folder / PICKLE, dtype)
    return read_safetensors(folder / SINGLE, dtype)


def read_safetensors(path: Path, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """All tensors of a file, as `dtype`. Raises `WeightsError`."""
    try:
        return _as(load_file(path), dtype)
    except FileNotFoundError as missing:
        raise _missing(path) from missing
    except SafetensorError as broken:
        raise WeightsError(f"{path} is not a whole safetensors file ({broken}). Fetch it again.") from broken


def read_pickle(path: Path, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """All tensors of a state dict that torch saved, as `dtype`. Raises `WeightsError`."""
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as missing:
        raise _missing(path) from missing
    except Exception as broken:  # an unpickler raises whatever it trips over
        reason = str(broken).splitlines()[0] if str(broken) else "it ends too early"
        raise WeightsError(f"{path} is not a whole file of tensors alone ({reason}). Fetch it again.") from broken
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise WeightsError(f"{path} holds something else than tensors by name.")
    return _as(tensors, dtype)


def fold_weight_norm(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Length and direction of a weight (arXiv 1602.07868, torch's new names or its old ones) -> the weight; others as they are.

    The direction's length is taken over all dimensions but the first, which is what torch's default does.
    """
    named = {_old_name(name): tensor for name, tensor in tensors.items()}
    folded = {name: tensor for name, tensor in named.items() if not name.endswith(("weight_g", "weight_v"))}
    for name in (name.removesuffix("_v") for name in named if name.endswith("weight_v")):
        direction, length = named[name + "_v"], named.get(name + "_g")
        if length is None:
            raise WeightsError(f"{name}_v has no {name}_g beside it.")
        norm = torch.linalg.vector_norm(direction, dim=tuple(range(1, direction.dim())), keepdim=True)
        folded[name] = direction * (length / norm)
    return folded


def tensors_under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load_module(
    module: nn.Module, tensors: dict[str, Tensor], source: Path, table: Mapping[str, tuple[str, ...]] | None = None
) -> None:
    """Fill `module`, which may be on device "meta": it takes the tensors as they are, not copies of them.

    Stacked tensors leave `tensors`, so that a big model is never in memory twice.
    `table` gives, for each name in the module, the names on disk, several where the module stacks them (along dimension 0);
    without it the names are the same. A missing, surplus or misshaped tensor is named. Raises `WeightsError`.
    """
    wanted = module.state_dict()
    table = table or {name: (name,) for name in wanted}
    assert table.keys() == wanted.keys(), "a table that leaves out parameters, or has others"
    expected = {name for names in table.values() for name in names}
    faults = [f"missing {name}" for name in expected - tensors.keys()]
    faults += [f"surplus {name}" for name in tensors.keys() - expected]
    faults += [
        f"{' and '.join(names)} is {' and '.join(str(list(tensors[name].shape)) for name in names)}, wanted {list(shape)}"
        for names, shape in ((names, wanted[name].shape) for name, names in table.items())
        if tensors.keys() >= set(names) and not _stacks([tensors[name] for name in names], shape)
    ]
    if faults:
        raise _misfit(source, faults)
    state = {
        name: tensors[names[0]] if len(names) == 1 else torch.cat([tensors.pop(part) for part in names])
        for name, names in table.items()
    }
    module.load_state_dict(state, assign=True)


class Checkpoint:
    """Tensors of a file that are taken by name until none is left, for modules that do not keep the file's layout.

    What is wrong is collected, so that one error can name it all: `finish`, or `check` where only some are wanted.
    """

    def __init__(self, path: Path, tensors: dict[str, Tensor] | None = None) -> None:
        """Reads the file, unless its `tensors` were read already. Raises `WeightsError`."""
        self.path = path
        self._left = read_safetensors(path) if tensors is None else tensors
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

    def check(self) -> None:
        """Raise `WeightsError` unless everything that was taken fitted."""
        if self._faults:
            raise _misfit(self.path, self._faults)

    def finish(self) -> None:
        """Raise `WeightsError` unless everything fitted and nothing is left over."""
        self._faults += [f"surplus {name}" for name in self._left]
        self.check()


def _stacks(parts: list[Tensor], shape: torch.Size) -> bool:
    if len(parts) == 1:
        return parts[0].shape == shape
    return all(part.shape[1:] == shape[1:] for part in parts) and sum(map(len, parts)) == shape[0]


def _read_shards(index: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    places = read_json(index).get("weight_map", {})
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(places.values())):
        tensors |= read_safetensors(index.parent / shard, dtype)
    lost = sorted(places.keys() - tensors.keys())
    if lost or not places:
        raise WeightsError(f"{index} names tensors that its files lack: {', '.join(lost[:TOLD]) or 'none at all'}.")
    return tensors


def _old_name(name: str) -> str:
    for new, old in NORMED.items():
        name = name.removesuffix(new) + old if name.endswith(new) else name
    return name


def _as(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def _missing(path: Path) -> WeightsError:
    return WeightsError(f"{path} is missing. Check the model's folder.")


def _misfit(source: Path, faults: list[str]) -> WeightsError:
    more = " …" if len(faults) > TOLD else ""
    return WeightsError(f"{source} does not fit: {'; '.join(sorted(faults)[:TOLD])}{more}")
