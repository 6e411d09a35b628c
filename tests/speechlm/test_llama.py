"""The shared decoder against transformers' Llama, Qwen2 and Qwen3, and what their configs are read as."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.tiny import GOLDEN, write
from voxrtc.speechlm.layers.attention import DenseCausal, RopeScaling
from voxrtc.speechlm.layers.decoder import Decoder
from voxrtc.speechlm.llama import decoder_config, decoder_table
from voxrtc.speechlm.weights import WeightsError, load_module, read_folder

LLAMA = json.loads((GOLDEN / "llama" / "config.json").read_text())


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_hidden_states_are_the_oracles(name: str, tmp_path: Path) -> None:
    folder = write(name, tmp_path)
    config = decoder_config(json.loads((folder / "config.json").read_text()), positions=64)
    tensors = read_folder(folder)
    tensors.pop("lm_head.weight", None)
    network = nn.ModuleDict({"embed": nn.Embedding(64, config.dim), "decoder": Decoder(config)})
    table = {**decoder_table(config, "decoder.", "model."), "embed.weight": ("model.embed_tokens.weight",)}
    load_module(network, tensors, folder, table)
    golden = load_file(folder / "golden.safetensors")
    with torch.inference_mode():
        x = network["embed"](golden["ids"])[None]
        hidden = network["decoder"](x, torch.arange(len(golden["ids"]))[None], DenseCausal())[0]
    assert (hidden - golden["hidden"]).abs().max() <= 1e-5


def test_configs_of_transformers_4_say_the_same() -> None:
    """There rotary settings stand beside each other, as in checkpoints published before version 5."""
    new = json.loads((GOLDEN / "orpheus" / "config.json").read_text())
    rope = new["rope_parameters"]
    old = {key: value for key, value in new.items() if key not in ("rope_parameters", "head_dim")}
    old |= {"rope_theta": rope["rope_theta"], "rope_scaling": {k: v for k, v in rope.items() if k != "rope_theta"}}
    assert decoder_config(old, 100) == decoder_config(new, 100)
    assert decoder_config(new, 100).rope_scaling == RopeScaling(factor=32, low=1, high=4, positions=8192)
    plain = {**old, "rope_scaling": None}
    assert decoder_config(plain, 100).rope_scaling is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"model_type": "gpt2"}, "gpt2"),
        ({"hidden_act": "gelu"}, "hidden_act is gelu"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn"),
    ],
)
def test_what_the_decoder_does_not_do_is_refused(wrong: dict, told: str) -> None:
    with pytest.raises(WeightsError, match=told):
        decoder_config({**LLAMA, **wrong}, 64)


def test_an_incomplete_config_is_told() -> None:
    with pytest.raises(WeightsError, match="hidden_size"):
        decoder_config({key: value for key, value in LLAMA.items() if key != "hidden_size"}, 64)


def test_a_network_without_memory_has_its_rotary_table() -> None:
    config = decoder_config(LLAMA, 64)
    with torch.device("meta"):
        laid_out = Decoder(config)
    assert torch.equal(laid_out.rope, Decoder(config).rope)
