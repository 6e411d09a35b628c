"""Oracle of `layers.decoder`: transformers' Llama, Qwen2 and Qwen3, tiny, over one sequence."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, Qwen2Config, Qwen3Config

from tests.parity.saving import saved

SHAPE = dict(
    vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48
)
CONFIGS = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False),
    "qwen2": Qwen2Config(**SHAPE, tie_word_embeddings=False, rms_norm_eps=1e-6),
    "qwen3": Qwen3Config(
        **SHAPE, head_dim=12, tie_word_embeddings=True, rope_parameters={"rope_theta": 1e6, "rope_type": "default"}
    ),
}


@torch.inference_mode()
def record(golden: Path) -> None:
    """Hidden states [40, 32] after the last norm, for the ids 0, 7, 14 … modulo 64."""
    ids = torch.arange(40) * 7 % 64
    for name, config in CONFIGS.items():
        model = saved(config, golden / name, torch.float32)
        hidden = model.model(ids[None]).last_hidden_state[0]
        save_file({"ids": ids, "hidden": hidden.contiguous()}, golden / name / "golden.safetensors")
