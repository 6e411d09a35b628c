"""Oracle of `codecs.mimi_tokens`: transformers' Mimi, thin, with the real strides and numbers of codebooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import MimiConfig, MimiModel

from tests.parity.saving import resaved
from tests.tiny import noise

SHAPE = dict(
    hidden_size=32, num_filters=4, num_hidden_layers=2, intermediate_size=48, num_attention_heads=2, num_key_value_heads=2,
    codebook_dim=16, vector_quantization_hidden_dimension=16, upsample_groups=32, sliding_window=9,
)  # fmt: skip
FRAMES, HOP = 14, 1920


@torch.inference_mode()
def record(golden: Path) -> None:
    """Codes [FRAMES, 32] with their samples [FRAMES * HOP], and the codes of a recording that is these, and noise."""
    keep = golden / "mimi"
    model = resaved(MimiModel(MimiConfig(**SHAPE)), keep)
    codes = torch.from_numpy(np.random.RandomState(1).randint(0, 2048, (FRAMES, 32)))
    samples = model.decode(codes.T[None]).audio_values[0, 0]
    assert len(samples) == FRAMES * HOP and 0.05 < samples.std() < 5, samples.std()
    recording = samples + noise(len(samples)) / 4
    encoded = model.encode(recording[None, None]).audio_codes[0].T
    save_file({"codes": codes, "samples": samples.contiguous(), "encoded": encoded.contiguous()}, keep / "golden.safetensors")
