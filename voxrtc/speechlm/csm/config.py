"""What a CSM's `config.json` says: transformers' `CsmConfig`, or Sesame's own few lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voxrtc.speechlm.codecs.mimi_files import RELEASED, mimi_config
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokensConfig
from voxrtc.speechlm.layers.attention import RopeScaling
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.llama import decoder_config
from voxrtc.speechlm.weights import WeightsError

FLAVOURS = {  # layers, width, heads, heads of keys and values, feed-forward (`csm/models.py` of Sesame's repository)
    "llama-1B": (16, 2048, 32, 8, 8192),
    "llama-100M": (4, 1024, 8, 2, 8192),
}
POSITIONS = 2048
SCALING = RopeScaling(factor=32.0, low=1.0, high=4.0, positions=8192)


@dataclass(frozen=True)
class CsmConfig:
    """Shape of a CSM."""

    backbone: DecoderConfig  # over time
    depth: DecoderConfig  # over the codebooks of a frame
    books: int
    rows: int  # of each codebook in the tables; a few more than the codec has codes
    texts: int  # text tokens
    codec: MimiTokensConfig

    @property
    def codes(self) -> int:
        """Of a codebook of the codec."""
        return self.codec.quantizer.size


def csm_config(config: dict[str, Any]) -> CsmConfig:
    """Raises `WeightsError`."""
    try:
        return _own_config(config) if "model_type" not in config else _csm_config(config)
    except KeyError as missing:
        raise WeightsError(f"config.json says nothing of {missing}.") from missing


def _own_config(config: dict[str, Any]) -> CsmConfig:
    """As beside Sesame's own files, with Kyutai's Mimi."""
    books = config["audio_num_codebooks"]
    return CsmConfig(
        backbone=_flavour(config["backbone_flavor"], POSITIONS),
        depth=_flavour(config["decoder_flavor"], books),
        books=books,
        rows=config["audio_vocab_size"],
        texts=config["text_vocab_size"],
        codec=mimi_config(RELEASED),
    )


def _flavour(name: str, positions: int) -> DecoderConfig:
    layers, dim, heads, kv_heads, ffn_dim = FLAVOURS[name]
    return DecoderConfig(
        layers=layers,
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=dim // heads,
        ffn_dim=ffn_dim,
        positions=positions,
        rope_theta=500_000.0,
        norm_eps=1e-5,
        rope_scaling=SCALING,
    )


def _csm_config(config: dict[str, Any]) -> CsmConfig:
    if config["model_type"] != "csm":
        raise WeightsError(f"config.json is of a “{config['model_type']}” model; wanted csm.")
    if not config.get("tie_codebooks_embeddings", True):
        raise WeightsError("config.json: tie_codebooks_embeddings is false; here both decoders share one table.")
    depth, codec = config["depth_decoder_config"], mimi_config(config["codec_config"])
    books, rows = config["num_codebooks"], config["vocab_size"]
    if (depth["num_codebooks"], depth["vocab_size"]) != (books, rows):
        raise WeightsError("config.json: the two decoders disagree about codebooks.")
    if codec.quantizer.books != books or codec.quantizer.size > rows:
        raise WeightsError("config.json: decoders and codec disagree about codebooks.")
    return CsmConfig(
        backbone=decoder_config({**config, "model_type": "llama"}, config["max_position_embeddings"]),
        depth=decoder_config({**depth, "model_type": "llama"}, books),
        books=books,
        rows=rows,
        texts=config["text_vocab_size"],
        codec=codec,
    )
