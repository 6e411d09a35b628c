"""What the recorders share: checkpoints as transformers saves them, with weights that `tests.tiny` can write again."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from tests.tiny import fill, manifest


def saved(config: PretrainedConfig, keep: Path, dtype: torch.dtype, shard: str = "1GB") -> torch.nn.Module:
    """The language model of `config`; see `resaved`."""
    return resaved(AutoModelForCausalLM.from_config(config, dtype=dtype), keep, shard)


def resaved(model: PreTrainedModel, keep: Path, shard: str = "1GB") -> torch.nn.Module:
    """An oracle like `model`, loaded in float32 from its own files; what is kept of these goes to `keep`.

    The files' names, and the tensors' in them, are those that `save_pretrained` chose; then they get their values.
    """
    keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size=shard)
        files = {path.name: load_file(path) for path in sorted(Path(folder).glob("*.safetensors"))}
        for name, tensors in files.items():
            values = {key: fill(key, tensor.shape).to(tensor.dtype) for key, tensor in tensors.items()}
            save_file(values, Path(folder, name), metadata={"format": "pt"})
        write_json(keep / "manifest.json", {name: manifest(tensors) for name, tensors in files.items()})
        for name in ("config.json", "model.safetensors.index.json"):
            if Path(folder, name).exists():
                shutil.copy(Path(folder, name), keep)
        return type(model).from_pretrained(folder, dtype=torch.float32).eval()


def write_json(path: Path, value: object) -> None:
    """Readable, and the same each time."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
