"""Tiny checkpoints in the layout of the real ones: an oracle saved them once, here they are written again.

Their weights are not kept: every tensor's values follow from its name, by numpy's frozen generator. What is kept is the
oracle's `config.json` and `manifest.json`: which file holds which tensors, of which shape and type.
"""

from __future__ import annotations

import json
import shutil
import zlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

GOLDEN = Path(__file__).parent / "golden"


def fill(name: str, shape: list[int] | torch.Size) -> Tensor:
    """The values of tensor `name`: such that signals keep their size, and no norm or slope is near zero."""
    values = np.random.RandomState(zlib.crc32(name.encode())).uniform(-1, 1, tuple(shape)).astype(np.float32)
    if "norm" in name or name.endswith(("alpha", "original0")):
        values = (1 + values / 2) / (2 if name.endswith("original0") else 1)
    elif name.endswith("cluster_usage"):
        values = 1 + values / 2
    elif name.endswith("f0_predictor.classifier.bias"):
        values = values + 11  # Hz, where a voice begins
    elif name.endswith("bias"):
        values = values / 10
    elif name.endswith("codebooks_head.weight"):  # the other way round: [books, dim, size]
        values = values * (3 / shape[1]) ** 0.5
    elif "embed_tokens" not in name:
        values = values * (3 / prod(shape[1:])) ** 0.5 * (20 if name.endswith("f0_predictor.classifier.weight") else 1)
    return torch.from_numpy(values)


def noise(count: int) -> Tensor:
    """Gaussian samples [count], always the same."""
    return torch.from_numpy(np.random.RandomState(2).standard_normal(count)).float()


def manifest(tensors: dict[str, Tensor]) -> dict[str, list]:
    """What `write` needs to know of the tensors of one file."""
    return {name: [str(tensor.dtype).removeprefix("torch."), *tensor.shape] for name, tensor in tensors.items()}


def write(name: str, folder: Path) -> Path:
    """Write checkpoint `name` of the golden data into `folder`, whole."""
    shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
    for file, tensors in json.loads((folder / "manifest.json").read_text()).items():
        values = {key: fill(key, shape).to(getattr(torch, dtype)) for key, (dtype, *shape) in tensors.items()}
        (save_file if file.endswith(".safetensors") else torch.save)(values, folder / file)
    return folder
