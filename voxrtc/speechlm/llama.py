"""Decoders that transformers saved (Llama, Qwen2, Qwen3): what their `config.json` says, and what their tensors are called."""

from __future__ import annotations

from typing import Any

from voxrtc.speechlm.layers.attention import RopeScaling
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.weights import WeightsError

KINDS: dict[str, dict[str, bool]] = {"llama": {}, "qwen2": {"qkv_bias": True}, "qwen3": {"qk_norm": True}}


def decoder_config(config: dict[str, Any], positions: int) -> DecoderConfig:
    """`config.json` of transformers 4 or 5 -> the decoder's shape, for sequences of `positions`. Raises `WeightsError`."""
    try:
        return _decoder_config(config, positions)
    except KeyError as missing:
        raise WeightsError(f"config.json says nothing of {missing}.") from missing


def _decoder_config(config: dict[str, Any], positions: int) -> DecoderConfig:
    kind = config.get("model_type")
    if kind not in KINDS:
        raise WeightsError(f"config.json is of a “{kind}” model; wanted {', '.join(KINDS)}.")
    for name, usual in (("hidden_act", "silu"), ("mlp_bias", False), ("attention_bias", False)):
        if config.get(name, usual) != usual:
            raise WeightsError(f"config.json: {name} is {config[name]}, which this decoder does not do.")
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"], **(config.get("rope_scaling") or {})}
    dim, heads = config["hidden_size"], config["num_attention_heads"]
    return DecoderConfig(
        layers=config["num_hidden_layers"],
        dim=dim,
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        head_dim=config.get("head_dim") or dim // heads,
        ffn_dim=config["intermediate_size"],
        positions=positions,
        rope_theta=rope["rope_theta"],
        norm_eps=config["rms_norm_eps"],
        rope_scaling=_scaling(rope),
        **KINDS[kind],
    )


def _scaling(rope: dict[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", "default")
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        return RopeScaling(rope["factor"], low, high, rope["original_max_position_embeddings"])
    if kind != "default":
        raise WeightsError(f"config.json: rotary angles are scaled by “{kind}”, which this decoder does not do.")
    return None


def decoder_table(config: DecoderConfig, ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    """Names in a `Decoder` under prefix `ours` -> names on disk under prefix `theirs`, for `weights.load_module`."""
    table: dict[str, tuple[str, ...]] = {f"{ours}norm.weight": (f"{theirs}norm.weight",)}
    for layer in range(config.layers):
        mine, block = f"{ours}blocks.{layer}.", f"{theirs}layers.{layer}."
        for kind in ("weight", "bias") if config.qkv_bias else ("weight",):
            table[f"{mine}qkv.{kind}"] = tuple(f"{block}self_attn.{part}_proj.{kind}" for part in "qkv")
        for name in ("q_norm", "k_norm") if config.qk_norm else ():
            table[f"{mine}{name}.weight"] = (f"{block}self_attn.{name}.weight",)
        table[f"{mine}attention_norm.weight"] = (f"{block}input_layernorm.weight",)
        table[f"{mine}output.weight"] = (f"{block}self_attn.o_proj.weight",)
        table[f"{mine}ffn_norm.weight"] = (f"{block}post_attention_layernorm.weight",)
        table[f"{mine}gate_up.weight"] = (f"{block}mlp.gate_proj.weight", f"{block}mlp.up_proj.weight")
        table[f"{mine}down.weight"] = (f"{block}mlp.down_proj.weight",)
    return table
