"""Files of tensors: every layout that is read, and what is said of a broken one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from voxrtc.speechlm.weights import WeightsError, fold_weight_norm, load_module, read_folder, read_pickle

TENSORS = {"a": torch.arange(3.0), "b": torch.ones(2, 2, dtype=torch.bfloat16)}


def shards(folder: Path, **places: str) -> None:
    """`a` and `b` in a file each, and an index that says where tensors are."""
    for name, tensor in TENSORS.items():
        save_file({name: tensor}, folder / f"{name}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize("layout", ["single", "shards", "pickle"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_folder_is_read_in_every_layout(tmp_path: Path, layout: str, dtype: torch.dtype) -> None:
    match layout:
        case "single":
            save_file(TENSORS, tmp_path / "model.safetensors")
        case "shards":
            shards(tmp_path, a="a.safetensors", b="b.safetensors")
        case "pickle":
            torch.save(TENSORS, tmp_path / "pytorch_model.bin")
    read = read_folder(tmp_path, dtype)
    assert read.keys() == TENSORS.keys()
    assert all(read[name].dtype == dtype and torch.equal(read[name], TENSORS[name].to(dtype)) for name in read)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"model\.safetensors is missing"):
        read_folder(tmp_path)
    shards(tmp_path, a="a.safetensors", b="b.safetensors", c="a.safetensors")
    with pytest.raises(WeightsError, match="lack: c"):
        read_folder(tmp_path)
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"b\.safetensors is missing"):
        read_folder(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{")
    with pytest.raises(WeightsError, match="is not JSON"):
        read_folder(tmp_path)


def test_a_file_of_tensors_is_never_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "sprung",)

    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Trap()}, path)
    with pytest.raises(WeightsError, match="tensors alone"):
        read_pickle(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"half a file", None])
def test_a_broken_pickle_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path)
    path.write_bytes(path.read_bytes()[:300] if content is None else content)
    with pytest.raises(WeightsError, match="Fetch it again"):
        read_pickle(path)


def test_a_pickle_of_something_else_is_told(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="something else"):
        read_folder(tmp_path)


@pytest.mark.parametrize("layer", [nn.Conv1d(3, 5, 7), nn.ConvTranspose1d(3, 5, 4, bias=False), nn.Linear(3, 5)])
def test_weight_norm_is_folded_as_torch_computes_it(layer: nn.Module) -> None:
    normed = weight_norm(layer)
    with torch.no_grad():
        normed.parametrizations.weight.original0.mul_(1.7)
    folded = fold_weight_norm(normed.state_dict())
    torch.testing.assert_close(folded["weight"], normed.weight.detach())
    assert ("bias" in folded) == (layer.bias is not None) and len(folded) <= 2


def test_stacked_tensors_fill_one(tmp_path: Path) -> None:
    module = nn.Linear(2, 5)
    tensors = {"q": torch.zeros(2, 2), "k": torch.ones(3, 2), "bias": torch.ones(5)}
    load_module(module, dict(tensors), tmp_path, {"weight": ("q", "k"), "bias": ("bias",)})
    assert module.weight.sum(1).tolist() == [0, 0, 2, 2, 2]
    with pytest.raises(WeightsError, match=r"q and k is \[2, 2\] and \[2, 2\], wanted \[5, 2\]"):
        load_module(module, {**tensors, "k": torch.ones(2, 2)}, tmp_path, {"weight": ("q", "k"), "bias": ("bias",)})
    with pytest.raises(WeightsError, match="missing k"):
        load_module(module, {k: v for k, v in tensors.items() if k != "k"}, tmp_path, {"weight": ("q", "k"), "bias": ("bias",)})
