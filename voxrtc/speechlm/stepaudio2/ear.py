"""Step-Audio 2's ear (arXiv 2507.16632, section 3.1): 25 s of a recording at most -> 12.5 vectors a second for the decoder.

Whisper's encoder (arXiv 2212.04356, section 2.2), whose frames are then averaged by twos, and an adaptor: one more convolution
that halves the rate, and two layers on to the language model's width. Reference: the checkpoint's `modeling_step_audio_2.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.features import whisper_mel
from voxrtc.speechlm.layers.linear import pack_all
from voxrtc.speechlm.weights import WeightsError, load_module

RATE = 16_000  # samples a second
SEGMENT = 25 * RATE  # samples that are heard together
PADDING = 479  # zeros behind a segment's samples
LEAST = 321  # samples of a segment that gives a vector
ADAPTOR_WIDTH = 2048
MOST_ROWS = 320  # of a linear layer in a call that is not out of the ordinary: six seconds


@dataclass(frozen=True)
class EarConfig:
    """Shape of the ear."""

    bins: int = 128
    places: int = 1500
    dim: int = 1280
    heads: int = 20
    layers: int = 32
    out: int = 3584

    @classmethod
    def parse(cls, config: dict[str, Any]) -> EarConfig:
        """`audio_encoder_config` of the checkpoint's `config.json`. Raises `WeightsError`."""
        try:
            names = ("n_mels", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer", "llm_dim")
            shape = cls(*(config[name] for name in names))
            kernel, stride = config["kernel_size"], config["adapter_stride"]
        except KeyError as missing:
            raise WeightsError(f"config.json says nothing of the audio encoder's {missing}.") from missing
        if (kernel, stride) != (3, 2):
            raise WeightsError(f"config.json: the adaptor's kernel and stride are {kernel} and {stride}; wanted 3 and 2.")
        return shape


class Block(nn.Module):
    """A layer of the encoder."""

    def __init__(self, config: EarConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_norm, self.ffn_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.qkv, self.output = nn.Linear(config.dim, 3 * config.dim), nn.Linear(config.dim, config.dim)
        self.up, self.down = nn.Linear(config.dim, 4 * config.dim), nn.Linear(4 * config.dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Frames [n, dim] -> the same. The last is seen by none, since in part it is padding."""
        q, k, v = self.qkv(self.attention_norm(x)).view(len(x), 3, self.heads, -1).permute(1, 2, 0, 3)
        seen = F.scaled_dot_product_attention(q, k[:, :-1], v[:, :-1])
        x = x + self.output(seen.transpose(0, 1).flatten(1))
        return x + self.down(F.gelu(self.up(self.ffn_norm(x))))


class Ear(nn.Module):
    """Encoder and adaptor."""

    def __init__(self, config: EarConfig) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Conv1d(config.bins, config.dim, 3, padding=1)
        self.halve = nn.Conv1d(config.dim, config.dim, 3, stride=2, padding=1)
        self.places = nn.Embedding(config.places, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.halve_again = nn.Conv1d(config.dim, config.dim, 3, stride=2, padding=1)
        self.up, self.leave = nn.Linear(config.dim, ADAPTOR_WIDTH), nn.Linear(ADAPTOR_WIDTH, config.out)

    @classmethod
    def filled(cls, config: EarConfig, tensors: dict[str, Tensor], source: Path, device: torch.device) -> Ear:
        """With the checkpoint's tensors `encoder.…` and `adapter.…`, ready to hear. `source` is what errors name.

        Raises `WeightsError`.
        """
        with torch.device("meta"):
            ear = cls(config)
        for query in [name for name in tensors if name.endswith("attn.query.bias")]:
            tensors[query.replace("query", "key")] = torch.zeros_like(tensors[query])  # Whisper's keys have none
        load_module(ear, tensors, source, _table(config))
        ear.requires_grad_(False).to(device).pack()
        return ear

    def pack(self) -> None:
        """Make it fast, on a CPU. After its weights are filled."""
        pack_all(self, MOST_ROWS)
        if self.places.weight.device.type == "cpu":  # where all but packed weights are float32
            for part in (self.enter, self.halve, self.halve_again, self.places):
                part.float()

    @torch.inference_mode()
    def forward(self, samples: Tensor) -> Tensor:
        """Samples [n] at RATE, SEGMENT at most -> vectors [`count(n)`, out]."""
        assert LEAST <= len(samples) <= SEGMENT
        mel = whisper_mel(F.pad(samples, (0, PADDING)), self.config.bins)
        x = self.halve(F.gelu(self.enter(mel.to(self.places.weight.dtype))))
        x = F.gelu(x).T + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.norm(F.avg_pool1d(x.T, 2).T)
        x = F.gelu(self.halve_again(x.T))[:, : count(len(samples))].T
        return self.leave(F.relu(self.up(x)))


def count(samples: int) -> int:
    """How many vectors a segment of so many samples gives: one for eight frames of its spectrogram, but for the last two."""
    whole = ((samples + PADDING) // 160 - 1) // 4  # averaged frames of nothing but the recording
    return (whole + 1) // 2


def _table(config: EarConfig) -> dict[str, tuple[str, ...]]:
    """Names in an `Ear` -> names on disk, for `weights.load_module`."""
    names = {
        "enter": "encoder.conv1", "halve": "encoder.conv2", "norm": "encoder.after_norm",
        "halve_again": "adapter.conv", "up": "adapter.linear1", "leave": "adapter.linear2",
    }  # fmt: skip
    block = {
        "attention_norm": "attn_ln", "output": "attn.out", "ffn_norm": "mlp_ln", "up": "mlp.0", "down": "mlp.2",
    }  # fmt: skip
    table: dict[str, tuple[str, ...]] = {"places.weight": ("encoder.positional_embedding.weight",)}
    for i in range(config.layers):
        names |= {f"blocks.{i}.{ours}": f"encoder.blocks.{i}.{theirs}" for ours, theirs in block.items()}
        for kind in ("weight", "bias"):
            parts = (f"encoder.blocks.{i}.attn.{part}.{kind}" for part in ("query", "key", "value"))
            table[f"blocks.{i}.qkv.{kind}"] = tuple(parts)
    return table | {f"{ours}.{kind}": (f"{theirs}.{kind}",) for ours, theirs in names.items() for kind in ("weight", "bias")}
