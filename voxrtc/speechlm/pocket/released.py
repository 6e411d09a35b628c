"""The released checkpoints of Pocket-TTS by the names of their folders, and what each differs in from the first of them.

Facts from the configurations in `pocket-tts` 4.0.1; checkpoints carry none.
"""

from __future__ import annotations

from typing import Any

_APOSTROPHES = {"’": "'", "‘": "'"}
_DASHES = {"–": ",", "—": ","}
_EUROPEAN = {**_APOSTROPHES, **dict.fromkeys('"“”„«»()[]', ""), "–": ","}

_SEANET: dict[str, Any] = {
    "dimension": 512, "channels": 1, "n_filters": 64, "n_residual_layers": 1, "ratios": [6, 5, 4], "kernel_size": 7,
    "residual_kernel_size": 3, "last_kernel_size": 3, "dilation_base": 2, "pad_mode": "constant", "compress": 2,
}  # fmt: skip
_CODEC_TRANSFORMER: dict[str, Any] = {
    "d_model": 512, "input_dimension": 512, "output_dimensions": [512], "num_heads": 8, "num_layers": 2,
    "context": 250, "dim_feedforward": 2048,
}  # fmt: skip
_LARGE: dict[str, Any] = {
    "flow_lm": {
        "insert_bos_before_voice": True,
        "flow": {"depth": 6, "dim": 512},
        "transformer": {"d_model": 1024, "hidden_scale": 4, "max_period": 10000, "num_heads": 16, "num_layers": 6},
        "lookup_table": {"n_bins": 4000},
    },
    "replace_characters": _APOSTROPHES,
    "mimi": {
        "sample_rate": 24000, "frame_rate": 12.5, "inner_dim": 32, "outer_dim": 512, "seanet": _SEANET,
        "transformer": _CODEC_TRANSFORMER, "quantizer": {"dimension": 32, "output_dimension": 512},
    },
}  # fmt: skip


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, tables within tables merged alike."""
    nested = {key: _merge(base[key], value) for key, value in changes.items() if isinstance(value, dict) and key in base}
    return {**base, **changes, **nested}


def _small(filters: int, codec_layers: int, head: dict[str, Any], rank: int | None, **transformer: int) -> dict[str, Any]:
    """A distilled model with a distilled decoder."""
    seanet = {**_SEANET, "dimension": 128, "n_filters": filters, "kernel_size": 3}
    codec = {"d_model": 128, "input_dimension": 128, "num_heads": 4, "num_layers": codec_layers, "context": 50,
             "dim_feedforward": 384}  # fmt: skip
    lm = {"flow": head, "transformer": {"hidden_scale": 1, "num_layers": 8, **transformer}, "z_dim": 64,
          "lookup_table": {"rank": rank}}  # fmt: skip
    mimi = {"decoder_seanet": seanet, "decoder_transformer": codec, "quantizer": {"output_dimension": 128}}
    return _merge(_LARGE, {"flow_lm": lm, "mimi": mimi, "default_eos_threshold": -1.0, "replace_characters": _DASHES})


_DRIFTING, _POINTWISE = {"depth": 4, "dim": 192, "type": "drifting"}, {"depth": 4, "dim": 64, "type": "pointwise"}
_18M = _small(32, 12, _DRIFTING, None, d_model=512, num_heads=8)
_7M = _small(32, 12, _DRIFTING, 64, d_model=224, num_heads=8, attn_dim=512, num_kv_heads=2)
_2M = _small(24, 4, _POINTWISE, 32, d_model=112, num_heads=3, attn_dim=192, num_kv_heads=1, dim_feedforward=96)
_24L = {"flow_lm": {"transformer": {"num_layers": 24}}}

_ENGLISH: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("english", "english_2026-04", "english_2026-09", "english_2026-09_2", "english_2026-10")},
    **dict.fromkeys(["english_2026-04_24l", "english_2026-09_24l"], _24L),
    "english_2026-01": {
        "flow_lm": {"insert_bos_before_voice": False},
        "mimi": {"inner_dim": 512},
        "pad_with_spaces_for_short_inputs": True,
    },
    "english_drifting_26-09": {"flow_lm": {"flow": {"type": "drifting"}}},
    **dict.fromkeys(["english_18m_2026-10", "english_18m_refl_2026-10"], _18M),
    **dict.fromkeys(["english_7m_2026-10", "english_7m_refl_2026-10"], _7M),
    **dict.fromkeys(["english_2m_2026-10", "english_2m_refl_2026-10"], _2M),
}
_OTHERS: dict[str, dict[str, Any]] = {
    "dutch": {"replace_characters": _EUROPEAN},
    "french": {"replace_characters": {**_EUROPEAN, ":": ","}, "remove_semicolons": True},
    "german": {"replace_characters": {**_EUROPEAN, **_DASHES}, "remove_semicolons": True},
    "italian": {"replace_characters": _EUROPEAN},
    "portuguese": {"replace_characters": _EUROPEAN},
    "spanish": {"replace_characters": {**_EUROPEAN, "¡": "", "¿": ""}},
}
_RELEASED = {**_ENGLISH, **_OTHERS, **{f"{name}_24l": {**_24L, **text} for name, text in _OTHERS.items()}}

# Where a checkpoint has its tokenizer from that has none in its own folder.
BORROWED = {
    "english_2026-01": "../..",
    **dict.fromkeys(["english_2026-09_2", "english_2026-10", "english_drifting_26-09"], "../english_2026-09"),
}


def released(name: str) -> dict[str, Any] | None:
    """The configuration of the checkpoint in a folder of this name, in the package's schema; None if it is not one of them."""
    return _merge(_LARGE, _RELEASED[name]) if name in _RELEASED else None
