"""Lark's network: phonemes and past frames in, one frame of seven audio tokens out.

A frame's input is the sum of the previous frame's code embeddings, a window of phonemes around a pointer that the model
itself advances, and the frames spent on the present phoneme. The codebooks of a frame are predicted in order by a small
residual depth model. Trained by `models/lark/recipe`; served by `voxrtc.speechlm.lark.model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig, init_weights


@dataclass(frozen=True)
class LarkConfig:
    """Hyperparameters, as in `models/lark/config.json`."""

    decoder: DecoderConfig = field(
        default_factory=lambda: DecoderConfig(layers=6, dim=256, heads=4, kv_heads=4, head_dim=64, ffn_dim=704, positions=1024)
    )
    codebook_sizes: tuple[int, ...] = (2, 512, 512, 512, 512, 512, 256)  # advance, 4 x unit, f0, energy
    phonemes: int = 178
    phoneme_dim: int = 64
    window: tuple[int, int] = (-3, 10)  # phonemes seen around the pointer, both ends included
    max_elapsed: int = 31  # frames on one phoneme before the pointer is moved for the model

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LarkConfig:
        """The `network` object of `config.json`."""
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists, "decoder": DecoderConfig(**values["decoder"])})


class LarkNetwork(nn.Module):
    """The trainable part. Shapes: B any leading shape, K codebooks, L phonemes."""

    offsets: Tensor
    code_offsets: Tensor
    sizes: Tensor

    def __init__(self, config: LarkConfig) -> None:
        super().__init__()
        self.config, dim, sizes = config, config.decoder.dim, config.codebook_sizes
        low, high = config.window
        self.phoneme = nn.Embedding(config.phonemes, config.phoneme_dim)
        self.prompt = nn.Linear(config.phoneme_dim, dim, bias=False)
        self.window = nn.Linear(config.phoneme_dim * (high - low + 1), dim, bias=False)
        self.elapsed = nn.Embedding(config.max_elapsed + 1, dim)
        self.codes = nn.Embedding(sum(sizes) + len(sizes), dim)  # all codebooks in one table, each with a start row
        self.decoder = Decoder(config.decoder)
        self.depth_codes = nn.ModuleList(nn.Embedding(size, dim) for size in sizes[:-1])
        self.depth_mix = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in sizes)
        self.depth_norm = nn.ModuleList(nn.RMSNorm(dim) for _ in sizes)
        self.heads = nn.ModuleList(nn.Linear(dim, size, bias=False) for size in sizes)
        starts = torch.tensor((0, *(size + 1 for size in sizes[:-1]))).cumsum(0)
        self.register_buffer("code_offsets", starts, persistent=False)
        self.register_buffer("offsets", torch.arange(low, high + 1), persistent=False)
        self.register_buffer("sizes", torch.tensor(sizes), persistent=False)
        init_weights(self, config.decoder.layers)

    def start_codes(self) -> Tensor:
        """The frame before the first one, [K]: each codebook's start row."""
        return self.sizes

    def prompt_inputs(self, phonemes: Tensor) -> Tensor:
        """Prefix positions: phoneme ids [B] -> [B, dim]."""
        return self.prompt(self.phoneme(phonemes))

    def windows(self, phonemes: Tensor, pointer: Tensor) -> Tensor:
        """Phoneme ids [B, L] and pointers [B, T] -> ids around each pointer [B, T, W], -1 outside the sentence.

        Padding of `phonemes` must be -1 too.
        """
        at = pointer[..., None] + self.offsets
        inside = (at >= 0) & (at < phonemes.shape[1])
        ids = phonemes.gather(1, at.clamp(0, phonemes.shape[1] - 1).flatten(1)).view(at.shape)
        return torch.where(inside, ids, -1)

    def frame_inputs(self, previous: Tensor, windows: Tensor, elapsed: Tensor) -> Tensor:
        """Frame positions: previous codes [B, K], phoneme windows [B, W] (-1: none), frames on the phoneme [B] -> [B, dim]."""
        around = self.phoneme(windows.clamp(min=0)) * (windows >= 0)[..., None]
        x = self.window(around.flatten(-2)) + self.elapsed(elapsed.clamp(max=self.config.max_elapsed))
        return x + self.codes(previous + self.code_offsets).sum(-2)

    def trunk(self, x: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Decoder over inputs [B, dim] at positions [B] -> hidden [B, dim]."""
        return self.decoder(x, positions, attention)

    def logits(self, z: Tensor, book: int) -> Tensor:
        """Scores of codebook `book` from the depth state `z` [B, dim] -> [B, size]."""
        return self.heads[book](self.depth_norm[book](z + F.silu(self.depth_mix[book](z))))

    def choose(self, z: Tensor, book: int, codes: Tensor) -> Tensor:
        """Depth state after `codes` [B] of codebook `book` were chosen. The last codebook has no successor."""
        return z + self.depth_codes[book](codes)
