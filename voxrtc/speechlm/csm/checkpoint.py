"""A CSM checkpoint on disk -> our modules, in transformers' layout: `config.json`, shards, Mimi's tensors among them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from voxrtc.speechlm.codecs.mimi_files import load_mimi
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens
from voxrtc.speechlm.csm.config import CsmConfig, csm_config
from voxrtc.speechlm.csm.network import Network
from voxrtc.speechlm.layers.linear import pack
from voxrtc.speechlm.llama import decoder_table
from voxrtc.speechlm.weights import load_module, read_folder, read_json, tensors_under

MOST_ROWS = 128  # of a step that is not out of the ordinary
INDEX = "transformers.safetensors.index.json"  # in Sesame's repository, where `model.safetensors` is something else
CODEC, HEADS = "codec_model.", "depth_decoder.codebooks_head.weight"
TABLE, TIED = "depth_decoder.model.embed_tokens.weight", "backbone_model.embed_tokens.embed_audio_tokens.weight"


def load(folder: Path, dtype: torch.dtype) -> tuple[Network, MimiTokens]:
    """Decoders in `dtype`, and codec, of a folder like `sesame/csm-1b`. Raises `WeightsError`."""
    config = csm_config(read_json(folder / "config.json"))
    tensors = read_folder(folder, index=INDEX) if (folder / INDEX).exists() else read_folder(folder)
    codec = load_mimi(config.codec, tensors_under(tensors, CODEC), folder)
    own = {name: tensors.pop(name).to(dtype) for name in list(tensors) if not name.startswith(CODEC)}
    return load_network(config, own, folder), codec


def load_network(config: CsmConfig, tensors: dict[str, Tensor], folder: Path) -> Network:
    """The decoders, packed. `folder` is what errors name. Raises `WeightsError`."""
    with torch.device("meta"):
        network = Network(config)
    if TIED in tensors:  # one tensor, written under either name or both
        tensors.setdefault(TABLE, tensors.pop(TIED))
    _separate(tensors, config)
    load_module(network, tensors, folder, _table(config))
    network.requires_grad_(False)
    pack(network, MOST_ROWS, smallest=256 * 256)
    return network


def _separate(tensors: dict[str, Tensor], config: CsmConfig) -> None:
    """Each head by itself, without the rows that are no codes. What has another shape stays, and will be told of."""
    dim, rows = config.depth.dim, config.rows
    if (heads := tensors.get(HEADS)) is not None and heads.shape == (config.books - 1, dim, rows):
        tensors |= {f"{HEADS}.{i}": head.T[: config.codes].contiguous() for i, head in enumerate(tensors.pop(HEADS))}
    if (head := tensors.get("lm_head.weight")) is not None and head.shape == (rows, config.backbone.dim):
        tensors["lm_head.weight"] = head[: config.codes].clone()


def _table(config: CsmConfig) -> dict[str, tuple[str, ...]]:
    table = decoder_table(config.backbone, "backbone.", "backbone_model.")
    table |= decoder_table(config.depth, "depth.decoder.", "depth_decoder.model.")
    table |= {f"depth.heads.{i}.weight": (f"{HEADS}.{i}",) for i in range(config.books - 1)}
    return table | {
        "texts.weight": ("embed_text_tokens.weight",),
        "codes.weight": (TABLE,),
        "head.weight": ("lm_head.weight",),
        "depth.enter.weight": ("depth_decoder.model.inputs_embeds_projector.weight",),
    }
