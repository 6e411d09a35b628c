"""Mimi with its quantizer against its oracle, in both layouts on disk. That it streams exactly is in `test_detokenizers`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.speechlm.families import HOST, tiny_mimi
from tests.tiny import GOLDEN, noise, write
from voxrtc.speechlm.codecs.mimi_files import load_mimi, mimi_config
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens
from voxrtc.speechlm.layers.attention import pairs_from_halves
from voxrtc.speechlm.weights import WeightsError, read_folder, read_json

CONFIG = read_json(GOLDEN / "mimi" / "config.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("mimi", tmp_path_factory.mktemp("mimi"))


@pytest.fixture(scope="module")
def mimi(folder: Path) -> MimiTokens:
    return tiny_mimi(folder)


@pytest.fixture(scope="module")
def golden() -> dict[str, torch.Tensor]:
    return load_file(GOLDEN / "mimi" / "golden.safetensors")


def whole(mimi: MimiTokens, codes: torch.Tensor) -> torch.Tensor:
    return mimi.decode([codes], [mimi.new_state(0)], [True])[0]


def test_samples_are_the_oracles(mimi: MimiTokens, golden: dict[str, torch.Tensor]) -> None:
    assert len(golden["codes"]) * mimi.config.codec.upsample > 2 * CONFIG["sliding_window"], "the window is to matter"
    assert (whole(mimi, golden["codes"]) - golden["samples"]).abs().max() <= 1e-4


def test_codes_of_a_recording_are_the_oracles(mimi: MimiTokens, golden: dict[str, torch.Tensor]) -> None:
    recording = golden["samples"] + noise(len(golden["samples"])) / 4
    assert torch.equal(mimi.encode(recording), golden["encoded"])


def test_silence_fills_up_the_last_frame(mimi: MimiTokens, golden: dict[str, torch.Tensor]) -> None:
    recording = golden["samples"][: 3 * 1920 - 700]
    filled = torch.cat([recording, torch.zeros(700)])
    assert torch.equal(mimi.encode(recording), mimi.encode(filled)) and len(mimi.encode(filled)) == 3


def to_kyutai(tensors: dict[str, torch.Tensor], head_dim: int) -> dict[str, torch.Tensor]:
    """Transformers' layout as Kyutai's own files have it, written down independently of the loader."""
    named = {}
    for name, tensor in tensors.items():
        name = re.sub(r"^(decoder\.layers\.(?:2|5|8|11))\.conv", r"\1.convtr.convtr", name)
        name = re.sub(r"^((?:en|de)coder\.layers\.\d+(?:\.block\.\d)?)\.conv\.", r"\1.conv.conv.", name)
        name = re.sub(r"^((?:en|de)coder)\.layers", r"\1.model", name)
        name = name.replace("downsample.conv", "downsample.conv.conv.conv").replace(
            "upsample.conv", "upsample.convtr.convtr.convtr"
        )
        name = re.sub(r"^((?:en|de)coder_transformer)", r"\1.transformer", name)
        for theirs, ours in (
            ("self_attn.o_proj", "self_attn.out_proj"), ("mlp.fc1", "linear1"), ("mlp.fc2", "linear2"),
            ("post_attention_layernorm", "norm2"), ("input_layernorm", "norm1"),
            ("self_attn_layer_scale", "layer_scale_1"), ("mlp_layer_scale", "layer_scale_2"),
            ("semantic_residual_vector_quantizer", "rvq_first"), ("acoustic_residual_vector_quantizer", "rvq_rest"),
            ("layers", "vq.layers") if "quantizer" in name else ("", ""),
            ("codebook.embed_sum", "_codebook.embedding_sum"), ("codebook.initialized", "_codebook._initialized"),
            ("codebook.cluster_usage", "_codebook.cluster_usage"),
        ):  # fmt: skip
            name = name.replace(theirs, ours) if theirs else name
        named[name] = tensor
    for name in [name for name in named if "q_proj" in name]:
        q, k, v = (named.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv")
        mixed = torch.cat([pairs_from_halves(q, head_dim), pairs_from_halves(k, head_dim), v])
        named[name.replace("q_proj.weight", "in_proj_weight")] = mixed
    return named


def test_kyutais_own_file_is_the_same_mimi(mimi: MimiTokens, folder: Path, golden: dict[str, torch.Tensor]) -> None:
    tensors = to_kyutai(read_folder(folder), mimi.config.codec.transformer.head_dim)
    assert "decoder_transformer.transformer.layers.0.self_attn.in_proj_weight" in tensors
    assert "encoder.model.1.block.1.conv.conv.weight" in tensors and "upsample.convtr.convtr.convtr.weight" in tensors
    own = load_mimi(mimi.config, tensors, folder, HOST)
    assert torch.equal(whole(own, golden["codes"]), whole(mimi, golden["codes"]))
    assert torch.equal(own.encode(golden["samples"]), mimi.encode(golden["samples"]))
    newer = {
        name.replace("in_proj_weight", "in_projs.0.weight").replace("out_proj.", "out_projs.0."): tensor
        for name, tensor in to_kyutai(read_folder(folder), mimi.config.codec.transformer.head_dim).items()
    }
    assert torch.equal(whole(load_mimi(mimi.config, newer, folder, HOST), golden["codes"]), whole(mimi, golden["codes"]))


def test_a_broken_checkpoint_is_told_by_name(folder: Path) -> None:
    tensors = read_folder(folder)
    del tensors["decoder_transformer.layers.1.self_attn.k_proj.weight"]
    with pytest.raises(WeightsError, match=r"decoder_transformer\.transformer\.layers\.1\.self_attn\.in_proj\.weight is"):
        load_mimi(mimi_config(CONFIG), tensors, folder, HOST)
    with pytest.raises(WeightsError, match="surplus extra"):
        load_mimi(mimi_config(CONFIG), {**read_folder(folder), "extra": torch.zeros(1)}, folder, HOST)
    with pytest.raises(WeightsError, match="use_conv_shortcut"):
        mimi_config({**CONFIG, "use_conv_shortcut": True})
    with pytest.raises(WeightsError, match="codebook_size"):
        mimi_config({key: value for key, value in CONFIG.items() if key != "codebook_size"})
