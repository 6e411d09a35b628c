"""A CSM checkpoint on disk -> our modules.

Transformers' layout has Mimi's tensors among the others. Sesame's own (`model.safetensors` of its repository, with torchtune's
names) has them elsewhere; here, in the subfolder `mimi`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from voxrtc.speechlm.base import Placement
from voxrtc.speechlm.codecs.mimi_files import RELEASED, load_mimi, mimi_config
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens
from voxrtc.speechlm.csm.config import CsmConfig, csm_config
from voxrtc.speechlm.csm.network import Network
from voxrtc.speechlm.layers.attention import halves_from_pairs
from voxrtc.speechlm.llama import decoder_table
from voxrtc.speechlm.weights import load_module, read_folder, read_json, read_safetensors, tensors_under

INDEX = "transformers.safetensors.index.json"  # in Sesame's repository, where `model.safetensors` is something else
MIMI = "tokenizer-e351c8d8-checkpoint125.safetensors"  # Kyutai's own file
SESAMES_HEADS = "audio_head"
CODEC, HEADS = "codec_model.", "depth_decoder.codebooks_head.weight"
TABLE, TIED = "depth_decoder.model.embed_tokens.weight", "backbone_model.embed_tokens.embed_audio_tokens.weight"
SESAMES = {  # beginnings of names, and parts of them
    "backbone.": "backbone_model.", "decoder.": "depth_decoder.model.", "text_embeddings.": "embed_text_tokens.",
    "audio_embeddings.weight": TABLE, "codebook0_head.": "lm_head.", SESAMES_HEADS: HEADS,
    "projection.": "depth_decoder.model.inputs_embeds_projector.",
}  # fmt: skip
TORCHTUNES = {
    ".attn.output_proj.": ".self_attn.o_proj.", ".attn.": ".self_attn.", ".mlp.w1.": ".mlp.gate_proj.",
    ".mlp.w2.": ".mlp.down_proj.", ".mlp.w3.": ".mlp.up_proj.", ".sa_norm.scale": ".input_layernorm.weight",
    ".mlp_norm.scale": ".post_attention_layernorm.weight", ".norm.scale": ".norm.weight",
}  # fmt: skip


def load(folder: Path, at: Placement) -> tuple[Network, MimiTokens]:
    """Decoders, and codec, of a folder like `sesame/csm-1b`. Raises `WeightsError`."""
    config, tensors = csm_config(read_json(folder / "config.json")), _read(folder)
    codec = _codec(config, tensors, folder, at.detokenizer)
    if SESAMES_HEADS in tensors:
        tensors = _from_sesame(tensors, config)
    own = {name: tensors.pop(name).to(at.dtype) for name in list(tensors) if not name.startswith(CODEC)}
    return load_network(config, own, folder, at.device), codec


def load_codec(folder: Path, device: torch.device) -> MimiTokens:
    """The codec alone. Raises `WeightsError`."""
    return _codec(csm_config(read_json(folder / "config.json")), _read(folder), folder, device)


def _read(folder: Path) -> dict[str, Tensor]:
    return read_folder(folder, index=INDEX) if (folder / INDEX).exists() else read_folder(folder)


def _codec(config: CsmConfig, tensors: dict[str, Tensor], folder: Path, device: torch.device) -> MimiTokens:
    if SESAMES_HEADS in tensors:
        return _mimi(folder / "mimi", device)
    return load_mimi(config.codec, tensors_under(tensors, CODEC), folder, device)


def _mimi(folder: Path, device: torch.device) -> MimiTokens:
    if (folder / MIMI).exists():
        return load_mimi(mimi_config(RELEASED), read_safetensors(folder / MIMI), folder / MIMI, device)
    return load_mimi(mimi_config(read_json(folder / "config.json")), read_folder(folder), folder, device)


def _from_sesame(tensors: dict[str, Tensor], config: CsmConfig) -> dict[str, Tensor]:
    """Names as transformers has them, and rotary pairs as halves."""
    renamed = {}
    for name in list(tensors):
        tensor, ours = tensors.pop(name), name
        for theirs in (begin for begin in SESAMES if name.startswith(begin)):
            ours = SESAMES[theirs] + name.removeprefix(theirs)
        for part, wanted in TORCHTUNES.items():
            ours = ours.replace(part, wanted)
        if ours.endswith(("q_proj.weight", "k_proj.weight")):
            head_dim = (config.backbone if name.startswith("backbone.") else config.depth).head_dim
            tensor = halves_from_pairs(tensor, head_dim) if len(tensor) % head_dim == 0 else tensor
        renamed[ours] = tensor
    return renamed


def load_network(config: CsmConfig, tensors: dict[str, Tensor], folder: Path, device: torch.device) -> Network:
    """The decoders, ready to serve. `folder` is what errors name. Raises `WeightsError`."""
    with torch.device("meta"):
        network = Network(config)
    if TIED in tensors:  # one tensor, written under either name or both
        tensors.setdefault(TABLE, tensors.pop(TIED))
    _separate(tensors, config)
    load_module(network, tensors, folder, _table(config))
    network.requires_grad_(False).to(device).pack()
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
