"""What Pocket-TTS checkpoints differ in: shapes, flow head, text rules. Read from the YAML that belongs to each of them.

The schema is that of the `pocket-tts` package (4.0.1, `utils/config.py`), so that what was trained there is served here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from voxrtc.speechlm.codecs.mimi import MimiConfig
from voxrtc.speechlm.codecs.seanet import SeanetConfig
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.pocket.released import released
from voxrtc.speechlm.weights import WeightsError

HEADS = ("lsd", "drifting", "pointwise")


@dataclass(frozen=True)
class HeadConfig:
    """The flow head: an MLP that makes a latent of noise in one step."""

    kind: str  # one of HEADS: how, see `network.FlowHead`
    dim: int
    depth: int


@dataclass(frozen=True)
class TextRules:
    """How a text is written for the model: as its training texts were."""

    replace: tuple[tuple[str, str], ...] = ()
    remove_semicolons: bool = False
    capitalize: bool = True
    end_with_punctuation: bool = True
    pad_short: bool = False  # spaces before a text of few words


@dataclass(frozen=True)
class PocketConfig:
    """One checkpoint's shape and settings."""

    decoder: DecoderConfig  # `positions` is 0: it depends on the voices
    head: HeadConfig
    codec: MimiConfig
    encoder: MimiConfig
    text: TextRules
    latent: int  # width of a frame
    vocabulary: int
    rank: int | None  # the text table is a product of two this wide
    condition: int | None  # what the heads see is a projection this wide; None: the decoder's output
    voice_dim: int  # width of an encoded voice
    bos_before_voice: bool
    temperature: float
    eos_threshold: float
    frames_after_eos: int | None  # None: by the number of words

    @classmethod
    def load(cls, folder: Path) -> PocketConfig:
        """From `config.yaml` of `folder`, or by its name if that is a released checkpoint's. Raises `WeightsError`."""
        path = folder / "config.yaml"
        values = yaml.safe_load(path.read_text("utf-8")) if path.exists() else released(folder.name)
        if values is None:
            raise WeightsError(f"{path} is missing, and “{folder.name}” is no released Pocket-TTS. Check the model's folder.")
        try:
            return cls.parse(values)
        except (KeyError, TypeError, ValueError) as wrong:
            raise WeightsError(f"{path} is not a Pocket-TTS configuration: {wrong!r}.") from wrong

    @classmethod
    def parse(cls, values: dict[str, Any]) -> PocketConfig:
        """From the package's schema. Raises `KeyError`, `TypeError`, `ValueError`."""
        lm, mimi = values["flow_lm"], values["mimi"]
        head = HeadConfig(lm["flow"].get("type", "lsd"), lm["flow"]["dim"], lm["flow"]["depth"])
        if head.kind not in HEADS:
            raise ValueError(f"flow head {head.kind!r}; known: {', '.join(HEADS)}")
        return cls(
            decoder=_decoder(lm["transformer"]),
            head=head,
            codec=_mimi(mimi, mimi.get("decoder_seanet") or mimi["seanet"], mimi.get("decoder_transformer")),
            encoder=_mimi(mimi, mimi["seanet"], None),
            text=_text(values),
            latent=mimi["quantizer"]["dimension"],
            vocabulary=lm["lookup_table"]["n_bins"],
            rank=lm["lookup_table"].get("rank"),
            condition=lm.get("z_dim"),
            voice_dim=mimi.get("inner_dim") or mimi["seanet"]["dimension"],
            bos_before_voice=lm.get("insert_bos_before_voice", False),
            temperature=values.get("default_temperature", 0.3),
            eos_threshold=values.get("default_eos_threshold", -4.0),
            frames_after_eos=values.get("model_recommended_frames_after_eos"),
        )


def _text(values: dict[str, Any]) -> TextRules:
    return TextRules(
        replace=tuple(values.get("replace_characters", {}).items()),
        remove_semicolons=values.get("remove_semicolons", False),
        capitalize=values.get("capitalize_first_letter", True),
        end_with_punctuation=values.get("append_terminal_punctuation", True),
        pad_short=values.get("pad_with_spaces_for_short_inputs", False),
    )


def _decoder(values: dict[str, Any]) -> DecoderConfig:
    """Of the language model."""
    width = values.get("attn_dim") or values["d_model"]
    return _transformer(
        values,
        head_dim=width // values["num_heads"],
        kv_heads=values.get("num_kv_heads") or values["num_heads"],
        ffn_dim=values.get("dim_feedforward") or values["d_model"] * values["hidden_scale"],
        positions=0,
    )


def _transformer(values: dict[str, Any], head_dim: int, kv_heads: int, ffn_dim: int, positions: int) -> DecoderConfig:
    return DecoderConfig(
        layers=values["num_layers"],
        dim=values["d_model"],
        heads=values["num_heads"],
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_dim=ffn_dim,
        positions=positions,
        rope_theta=float(values.get("max_period", 10_000)),
        norm_eps=1e-5,
        norm="layer",
        activation="gelu_tanh",
        gated=False,
    )


def _mimi(mimi: dict[str, Any], seanet: dict[str, Any], transformer: dict[str, Any] | None) -> MimiConfig:
    t = transformer or mimi["transformer"]
    shape = SeanetConfig(
        dim=seanet["dimension"],
        filters=seanet["n_filters"],
        ratios=tuple(seanet["ratios"]),
        kernel=seanet["kernel_size"],
        last_kernel=seanet["last_kernel_size"],
        residual_kernel=seanet["residual_kernel_size"],
        compress=seanet["compress"],
    )
    known = {"n_residual_layers": 1, "channels": 1, "pad_mode": "constant"}
    if wrong := {key: seanet[key] for key, value in known.items() if seanet[key] != value}:
        raise ValueError(f"SEANet with {wrong}")
    if t["input_dimension"] != t["d_model"] or t["d_model"] != shape.dim:
        raise ValueError("a codec transformer of another width than its SEANet")
    heads = t["num_heads"]
    return MimiConfig(
        upsample=round(mimi["sample_rate"] / shape.hop / mimi["frame_rate"]),
        transformer=_transformer(t, t["d_model"] // heads, heads, t["dim_feedforward"], t["context"]),
        seanet=shape,
    )
