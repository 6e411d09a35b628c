"""A flow as CosyVoice 2 publishes it (`flow.pt`), or those who took it over -> `TokenFlow`. Its tensors tell its shape."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from voxrtc.speechlm.codecs.conformer import ConformerConfig
from voxrtc.speechlm.codecs.token_flow import FlowConfig, TokenFlow
from voxrtc.speechlm.codecs.unet import UNetConfig
from voxrtc.speechlm.weights import WeightsError, load_module

ENCODER, ESTIMATOR = "encoder.", "decoder.estimator."
HEAD_DIM = 64  # of the estimator, whose tensors do not tell
POINTWISE = ("res_conv.weight", "final_proj.weight")  # convolutions of one tap, which are linear layers here


def load_flow(tensors: dict[str, Tensor], source: Path, device: torch.device, left: int = FlowConfig.left) -> TokenFlow:
    """Ready to serve. `source` is what errors name, `left` how many blocks a block sees before it. Raises `WeightsError`."""
    tensors = {name: t[..., 0] if name.endswith(POINTWISE) and t.dim() == 3 else t for name, t in tensors.items()}
    try:
        config = flow_config(tensors, left)
    except (KeyError, IndexError) as missing:
        raise WeightsError(f"{source} is not the flow of CosyVoice 2: it lacks {missing}.") from missing
    with torch.device("meta"):
        flow = TokenFlow(config)
    load_module(flow, tensors, source, flow_table(config))
    flow.requires_grad_(False).to(device).prepare()
    return flow


def flow_config(tensors: dict[str, Tensor], left: int) -> FlowConfig:
    """Raises `KeyError` where a tensor is not there that tells of the shape."""
    ffn_dim, dim = tensors[f"{ENCODER}encoders.0.feed_forward.w_1.weight"].shape
    encoder = ConformerConfig(
        dim=dim,
        heads=len(tensors[f"{ENCODER}encoders.0.self_attn.pos_bias_u"]),
        ffn_dim=ffn_dim,
        lower=_count(tensors, f"{ENCODER}encoders."),
        upper=_count(tensors, f"{ENCODER}up_encoders."),
        lookahead=tensors[f"{ENCODER}pre_lookahead_layer.conv1.weight"].shape[2] - 1,
    )
    attended, width = tensors[f"{ESTIMATOR}down_blocks.0.1.0.attn1.to_q.weight"].shape
    estimator = UNetConfig(
        mel=len(tensors["encoder_proj.bias"]),
        dim=width,
        middle=_count(tensors, f"{ESTIMATOR}mid_blocks."),
        depth=_count(tensors, f"{ESTIMATOR}down_blocks.0.1."),
        heads=attended // HEAD_DIM,
        head_dim=HEAD_DIM,
    )
    codes, speaker = len(tensors["input_embedding.weight"]), tensors["spk_embed_affine_layer.weight"].shape[1]
    return FlowConfig(codes, speaker, encoder, estimator, left)


def _count(tensors: dict[str, Tensor], prefix: str) -> int:
    """How many modules a list has on disk."""
    return len({name.removeprefix(prefix).split(".")[0] for name in tensors if name.startswith(prefix)})


def flow_table(config: FlowConfig) -> dict[str, tuple[str, ...]]:
    """Names in a `TokenFlow` -> names on disk, for `weights.load_module`."""
    assert isinstance(config.estimator, UNetConfig)
    return frame_table(config.encoder) | _estimator(config.estimator)


def frame_table(config: ConformerConfig) -> dict[str, tuple[str, ...]]:
    """The part without the estimator."""
    table = {"tokens.weight": ("input_embedding.weight",)}
    return table | affine("speaker", "spk_embed_affine_layer") | affine("leave", "encoder_proj") | _encoder(config)


def affine(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    """A weight and its bias."""
    return {f"{ours}.{kind}": (f"{theirs}.{kind}",) for kind in ("weight", "bias")}


def _encoder(config: ConformerConfig) -> dict[str, tuple[str, ...]]:
    names = {
        "enter.project": "embed.out.0", "enter.norm": "embed.out.1", "enter_upper.project": "up_embed.out.0",
        "enter_upper.norm": "up_embed.out.1", "ahead": "pre_lookahead_layer.conv1", "back": "pre_lookahead_layer.conv2",
        "up": "up_layer.conv", "norm": "after_norm",
    }  # fmt: skip
    table: dict[str, tuple[str, ...]] = {}
    for ours, theirs in names.items():
        table |= affine(f"encoder.{ours}", ENCODER + theirs)
    for stack, theirs, layers in (("lower", "encoders", config.lower), ("upper", "up_encoders", config.upper)):
        for i in range(layers):
            table |= _conformer_block(f"encoder.{stack}.{i}.", f"{ENCODER}{theirs}.{i}.")
    return table


def _conformer_block(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    names = {
        "attention_norm": "norm_mha", "ffn_norm": "norm_ff", "up": "feed_forward.w_1", "down": "feed_forward.w_2",
        "attention.query": "self_attn.linear_q", "attention.key": "self_attn.linear_k",
        "attention.value": "self_attn.linear_v", "attention.output": "self_attn.linear_out",
    }  # fmt: skip
    table = {
        f"{ours}attention.distance.weight": (f"{theirs}self_attn.linear_pos.weight",),
        f"{ours}attention.content_bias": (f"{theirs}self_attn.pos_bias_u",),
        f"{ours}attention.distance_bias": (f"{theirs}self_attn.pos_bias_v",),
    }
    for name, other in names.items():
        table |= affine(ours + name, theirs + other)
    return table


def _estimator(config: UNetConfig) -> dict[str, tuple[str, ...]]:
    names = {
        "times.first": "time_mlp.linear_1", "times.second": "time_mlp.linear_2", "after_down.taps": "down_blocks.0.2",
        "after_up.taps": "up_blocks.0.2", "last.convolution.taps": "final_block.block.0", "last.norm": "final_block.block.2",
        "leave": "final_proj",
    }  # fmt: skip
    table: dict[str, tuple[str, ...]] = {}
    for ours, theirs in names.items():
        table |= affine(f"estimator.{ours}", ESTIMATOR + theirs)
    stages = {"down": "down_blocks.0", "up": "up_blocks.0", **{f"middle.{i}": f"mid_blocks.{i}" for i in range(config.middle)}}
    for ours, theirs in stages.items():
        table |= _stage(f"estimator.{ours}.", f"{ESTIMATOR}{theirs}.", config.depth)
    return table


def _stage(ours: str, theirs: str, depth: int) -> dict[str, tuple[str, ...]]:
    names = {
        "first.convolution.taps": "0.block1.block.0", "first.norm": "0.block1.block.2",
        "second.convolution.taps": "0.block2.block.0", "second.norm": "0.block2.block.2",
        "time": "0.mlp.1", "skip": "0.res_conv",
    }  # fmt: skip
    table: dict[str, tuple[str, ...]] = {}
    for name, other in names.items():
        table |= affine(ours + name, theirs + other)
    for i in range(depth):
        mine, block = f"{ours}blocks.{i}.", f"{theirs}1.{i}."
        table[f"{mine}qkv.weight"] = tuple(f"{block}attn1.to_{part}.weight" for part in "qkv")
        table |= affine(f"{mine}output", f"{block}attn1.to_out.0") | affine(f"{mine}attention_norm", f"{block}norm1")
        table |= affine(f"{mine}up", f"{block}ff.net.0.proj") | affine(f"{mine}down", f"{block}ff.net.2")
        table |= affine(f"{mine}ffn_norm", f"{block}norm3")
    return table
