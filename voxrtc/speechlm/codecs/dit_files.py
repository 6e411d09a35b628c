"""The flow of Step-Audio 2's `token2wav` folder -> `DiTFlow`: `flow.yaml` tells its shape, `flow.pt` has its tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import yaml

from voxrtc.speechlm.codecs.conformer import RATIO, ConformerConfig
from voxrtc.speechlm.codecs.dit import DiTConfig
from voxrtc.speechlm.codecs.dit_flow import DiTFlow
from voxrtc.speechlm.codecs.flow import Solver
from voxrtc.speechlm.codecs.flow_files import ESTIMATOR, affine, frame_table
from voxrtc.speechlm.codecs.token_flow import FlowConfig
from voxrtc.speechlm.weights import WeightsError, load_module, read_pickle


class _Plain(yaml.SafeLoader):
    """Reads what the file would have made objects of, as mappings."""


_Plain.add_multi_constructor("!new:", lambda loader, name, node: loader.construct_mapping(node, deep=True))


def load_dit_flow(folder: Path, device: torch.device, left: int = FlowConfig.left) -> DiTFlow:
    """Ready to serve. `left` is how many blocks a block sees before it. Raises `WeightsError`."""
    values, path = _read(folder / "flow.yaml"), folder / "flow.pt"
    try:
        config, guidance = _config(values["flow"], left), float(values["flow"]["decoder"]["inference_cfg_rate"])
        stride = values["flow"]["encoder"]["up_stride"]
    except (KeyError, TypeError, ValueError) as wrong:
        raise WeightsError(f"{folder / 'flow.yaml'} is not the flow of Step-Audio 2 ({wrong!r}).") from wrong
    if stride != RATIO:
        raise WeightsError(f"{folder / 'flow.yaml'} makes {stride} frames of a token; here they are {RATIO}.")
    with torch.device("meta"):
        flow = DiTFlow(config, Solver(guidance=guidance))
    load_module(flow, read_pickle(path), path, _table(config))
    flow.requires_grad_(False).to(device).prepare()
    return flow


def _read(path: Path) -> dict[str, Any]:
    try:
        return yaml.load(path.read_text("utf-8"), _Plain)
    except FileNotFoundError as missing:
        raise WeightsError(f"{path} is missing. Check the model's folder.") from missing
    except (yaml.YAMLError, UnicodeDecodeError) as broken:
        raise WeightsError(f"{path} cannot be read ({str(broken).splitlines()[0]}). Fetch it again.") from broken


def _config(flow: dict[str, Any], left: int) -> FlowConfig:
    encoder, estimator = flow["encoder"], flow["decoder"]["estimator"]
    conformer = ConformerConfig(
        dim=int(encoder["output_size"]),
        heads=int(encoder["attention_heads"]),
        ffn_dim=int(encoder["linear_units"]),
        lower=int(encoder["num_blocks"]),
        upper=int(encoder["num_up_blocks"]),
        lookahead=int(encoder["pre_lookahead_len"]),
    )
    dit = DiTConfig(
        mel=int(estimator["out_channels"]),
        dim=int(estimator["hidden_size"]),
        layers=int(estimator["depth"]),
        heads=int(estimator["num_heads"]),
        head_dim=int(estimator["head_dim"]),
        ffn_dim=int(estimator["hidden_size"] * estimator["mlp_ratio"]),
    )
    return FlowConfig(int(flow["vocab_size"]), int(flow["spk_embed_dim"]), conformer, dit, left)


def _table(config: FlowConfig) -> dict[str, tuple[str, ...]]:
    """Names in a `DiTFlow` -> names on disk, for `weights.load_module`."""
    assert isinstance(config.estimator, DiTConfig)
    names = {
        "times.first": "t_embedder.mlp.0", "times.second": "t_embedder.mlp.2", "enter": "in_proj",
        "modulation": "final_layer.adaLN_modulation.1", "leave": "final_layer.linear",
    }  # fmt: skip
    table = frame_table(config.encoder)
    for ours, theirs in names.items():
        table |= affine(f"estimator.{ours}", ESTIMATOR + theirs)
    for i in range(config.estimator.layers):
        table |= _layer(f"estimator.layers.{i}.", f"{ESTIMATOR}blocks.{i}.")
    return table


def _layer(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    names = {
        "modulation": "adaLN_modulation.1", "query_norm": "attn.q_norm", "key_norm": "attn.k_norm", "output": "attn.proj",
        "first.taps": "conv.block.1", "between": "conv.block.3", "second.taps": "conv.block.6", "up": "mlp.fc1",
        "down": "mlp.fc2",
    }  # fmt: skip
    table = {f"{ours}qkv.{kind}": tuple(f"{theirs}attn.to_{part}.{kind}" for part in "qkv") for kind in ("weight", "bias")}
    for name, other in names.items():
        table |= affine(ours + name, theirs + other)
    return table
