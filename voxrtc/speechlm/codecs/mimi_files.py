"""Checkpoints of Mimi on disk: transformers' layout (`kyutai/mimi`, or a part of another model's files) and Kyutai's own.

Both are renamed to what `pocket-tts` calls the same tensors; from there on `kyutai` fills them in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from voxrtc.speechlm.codecs.kyutai import fill_decoder, fill_encoder, fill_quantizer
from voxrtc.speechlm.codecs.mimi import MimiConfig
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens, MimiTokensConfig
from voxrtc.speechlm.codecs.quantizer import QuantizerConfig
from voxrtc.speechlm.codecs.seanet import SeanetConfig
from voxrtc.speechlm.layers.attention import pairs_from_halves
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.weights import Checkpoint, WeightsError

USUAL = {
    "audio_channels": 1, "num_residual_layers": 1, "use_causal_conv": True, "pad_mode": "constant", "use_conv_shortcut": False,
    "trim_right_ratio": 1.0, "hidden_act": "gelu", "attention_bias": False,
}  # fmt: skip
FRAME_RATE = 12.5
RELEASED = {  # of `kyutai/mimi`, for files without a configuration beside them
    "sampling_rate": 24_000, "hidden_size": 512, "num_filters": 64, "upsampling_ratios": [8, 6, 5, 4], "kernel_size": 7,
    "last_kernel_size": 3, "residual_kernel_size": 3, "compress": 2, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 8, "intermediate_size": 2048, "sliding_window": 250, "rope_theta": 10_000.0, "norm_eps": 1e-5,
    "num_quantizers": 32, "num_semantic_quantizers": 1, "codebook_size": 2048, "codebook_dim": 256,
}  # fmt: skip

KYUTAI = (  # the last two: what newer versions of `moshi` save
    ("conv.conv.", "conv."), ("convtr.convtr.", "convtr."), (".in_proj_weight", ".in_proj.weight"),
    (".in_projs.0.", ".in_proj."), (".out_projs.0.", ".out_proj."),
)  # fmt: skip
TRANSFORMERS = (
    (r"^(down|up)sample\.conv\.", r"\1sample.conv.conv."),
    (r"^upsample\.conv\.conv\.", "upsample.convtr.convtr."),
    (r"^(en|de)coder\.layers\.", r"\1coder.model."),
    (r"^(en|de)coder_transformer\.", r"\1coder_transformer.transformer."),
    (r"\.self_attn\.o_proj\.", ".self_attn.out_proj."),
    (r"\.mlp\.fc([12])\.", r".linear\1."),
    (r"\.input_layernorm\.", ".norm1."),
    (r"\.post_attention_layernorm\.", ".norm2."),
    (r"\.self_attn_layer_scale\.", ".layer_scale_1."),
    (r"\.mlp_layer_scale\.", ".layer_scale_2."),
    (r"\.semantic_residual_vector_quantizer\.", ".rvq_first."),
    (r"\.acoustic_residual_vector_quantizer\.", ".rvq_rest."),
    (r"\.(layers\.\d+)\.codebook\.embed_sum$", r".vq.\1._codebook.embedding_sum"),
    (r"\.(layers\.\d+)\.codebook\.cluster_usage$", r".vq.\1._codebook.cluster_usage"),
    (r"\.(layers\.\d+)\.codebook\.initialized$", r".vq.\1._codebook._initialized"),
)


def mimi_config(config: Mapping[str, Any]) -> MimiTokensConfig:
    """What transformers' `config.json` says of a Mimi. Raises `WeightsError`."""
    try:
        return _mimi_config(config)
    except KeyError as missing:
        raise WeightsError(f"Mimi's configuration says nothing of {missing}.") from missing


def _mimi_config(config: Mapping[str, Any]) -> MimiTokensConfig:
    if wrong := {key: config[key] for key, value in USUAL.items() if config.get(key, value) != value}:
        raise WeightsError(f"A Mimi with {wrong}, which this one does not do.")
    dim, heads = config["hidden_size"], config["num_attention_heads"]
    seanet = SeanetConfig(
        dim=dim,
        filters=config["num_filters"],
        ratios=tuple(config["upsampling_ratios"]),
        kernel=config["kernel_size"],
        last_kernel=config["last_kernel_size"],
        residual_kernel=config["residual_kernel_size"],
        compress=config["compress"],
    )
    transformer = DecoderConfig(
        layers=config["num_hidden_layers"],
        dim=dim,
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        head_dim=config.get("head_dim") or dim // heads,
        ffn_dim=config["intermediate_size"],
        positions=config["sliding_window"],
        rope_theta=(config.get("rope_parameters") or config)["rope_theta"],
        norm_eps=config["norm_eps"],
        norm="layer",
        activation="gelu",
        gated=False,
    )
    rate = config.get("frame_rate") or config.get("_frame_rate") or FRAME_RATE
    quantizer = QuantizerConfig(
        books=config["num_quantizers"],
        semantic=config["num_semantic_quantizers"],
        size=config["codebook_size"],
        dim=config["codebook_dim"],
        features=dim,
    )
    upsample = round(config["sampling_rate"] / seanet.hop / rate)
    return MimiTokensConfig(config["sampling_rate"], MimiConfig(upsample, transformer, seanet), quantizer)


def load_mimi(config: MimiTokensConfig, tensors: dict[str, Tensor], source: Path, device: torch.device) -> MimiTokens:
    """A Mimi of float32 `tensors` in either layout, ready to serve; `source` is what errors name. Raises `WeightsError`."""
    own = any(name.startswith("encoder.model.") for name in tensors)
    file = Checkpoint(source, _from_kyutai(tensors) if own else _from_transformers(tensors, config.codec))
    mimi = MimiTokens(config).requires_grad_(False)
    fill_quantizer(mimi.quantizer, file, "quantizer.")
    fill_decoder(mimi.decoder, file, "")
    fill_encoder(mimi.encoder, file, "")
    file.finish()
    mimi.to(device).pack()
    return mimi


def _from_kyutai(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed = {}
    for name, tensor in tensors.items():
        for theirs, ours in KYUTAI:
            name = name.replace(theirs, ours)
        renamed[name] = tensor
    return renamed


def _from_transformers(tensors: Mapping[str, Tensor], config: MimiConfig) -> dict[str, Tensor]:
    head_dim = config.transformer.head_dim
    ups = "|".join(str(3 * up + 2) for up in range(len(config.seanet.ratios)))  # each followed by a residual and an activation
    renamed = {}
    for name, tensor in tensors.items():
        name = re.sub(rf"^(decoder\.layers\.(?:{ups}))\.conv\.", r"\1.convtr.", name)
        for theirs, ours in TRANSFORMERS:
            name = re.sub(theirs, ours, name)
        renamed[name] = tensor
    for name in [name for name in renamed if name.endswith(".q_proj.weight")]:
        attention = name.removesuffix("q_proj.weight")
        q, k, v = (renamed.pop(f"{attention}{part}_proj.weight", torch.empty(0)) for part in "qkv")
        paired = [pairs_from_halves(x, head_dim) if len(x) % head_dim == 0 else x for x in (q, k)]
        renamed[f"{attention}in_proj.weight"] = torch.cat([*paired, v])
    return renamed
