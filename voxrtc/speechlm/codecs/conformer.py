"""The encoder of CosyVoice 2's flow (arXiv 2412.10117, section 2.3): tokens -> twice as many frames, block by block.

Conformer blocks without their convolution and second feed-forward, as in the reference's configuration: what is left
are attention with relative positions (Transformer-XL, arXiv 1901.02860) and a feed-forward. Six of them over tokens, which
first look a few tokens ahead; four over frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.blocks import BlockCall

RATIO = 2  # frames of a token
FARTHEST = 2048  # rows: what is farther away, like a prompt after a minute, counts as so far


@dataclass(frozen=True)
class ConformerConfig:
    """Shape of the encoder."""

    dim: int = 512
    heads: int = 8
    ffn_dim: int = 2048
    lower: int = 6  # layers over tokens
    upper: int = 4  # layers over frames
    lookahead: int = 3  # tokens
    block: int = 25  # tokens


class RelativeAttention(nn.Module):
    """Attention that adds to each product of query and key one of query and distance."""

    ahead: int
    far: Tensor

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.heads, self.head_dim = config.heads, config.dim // config.heads
        self.query, self.key, self.value, self.output = (nn.Linear(config.dim, config.dim) for _ in range(4))
        self.distance = nn.Linear(config.dim, config.dim, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(config.heads, self.head_dim))
        self.distance_bias = nn.Parameter(torch.zeros(config.heads, self.head_dim))

    def prepare(self, block: int) -> None:
        """What its weights say of every distance in and behind a block of so many rows. After they are filled."""
        self.ahead = block - 1
        angles = torch.arange(-self.ahead, FARTHEST, device=self.distance.weight.device)
        self.far = self.distance(_sinusoid(angles, self.distance.in_features)).unflatten(-1, (self.heads, -1)).transpose(0, 1)

    def forward(self, x: Tensor, entry: int, call: BlockCall) -> Tensor:
        """[streams, rows, dim] -> the same."""
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)) for part in (self.query, self.key, self.value))
        assert self.ahead + call.nearest >= 0, f"a row {-call.nearest} ahead"
        index = call.distances.clamp(max=FARTHEST - 1) - call.nearest
        far = self.far[:, self.ahead + call.nearest : self.ahead + call.farthest + 1]
        by_distance = (q + self.distance_bias).transpose(1, 2) @ far.transpose(1, 2)
        bias = by_distance.gather(3, index[:, None].expand(-1, self.heads, -1, -1)) / math.sqrt(self.head_dim)
        return self.output(call.attend(entry, q + self.content_bias, k, v, bias).flatten(2))


class ConformerBlock(nn.Module):
    """Attention, then feed-forward."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = (nn.LayerNorm(config.dim, eps=1e-12) for _ in range(2))
        self.attention = RelativeAttention(config)
        self.up, self.down = nn.Linear(config.dim, config.ffn_dim), nn.Linear(config.ffn_dim, config.dim)

    def forward(self, x: Tensor, entry: int, call: BlockCall) -> Tensor:
        """[streams, rows, dim] -> the same."""
        x = x + self.attention(self.attention_norm(x), entry, call)
        return x + self.down(F.silu(self.up(self.ffn_norm(x))))


class Entry(nn.Module):
    """What comes into a stack of blocks, as large as they are used to."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project, self.norm, self.scale = nn.Linear(dim, dim), nn.LayerNorm(dim), math.sqrt(dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.project(x)) * self.scale


class Conformer(nn.Module):
    """Embedded tokens -> frames."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.config = config
        self.enter, self.enter_upper = Entry(config.dim), Entry(config.dim)
        self.ahead = nn.Conv1d(config.dim, config.dim, config.lookahead + 1)
        self.back = nn.Conv1d(config.dim, config.dim, 3)
        self.lower = nn.ModuleList(ConformerBlock(config) for _ in range(config.lower))
        self.up = nn.Conv1d(config.dim, config.dim, 2 * RATIO + 1)
        self.upper = nn.ModuleList(ConformerBlock(config) for _ in range(config.upper))
        self.norm = nn.LayerNorm(config.dim)

    @torch.no_grad()
    def prepare(self, longest: int) -> None:
        """For blocks of so many tokens. After its weights are filled."""
        for blocks, size in ((self.lower, longest), (self.upper, RATIO * longest)):
            for block in blocks:
                block.attention.prepare(size)

    def forward(self, x: Tensor, known: Tensor, tokens: BlockCall, frames: BlockCall) -> Tensor:
        """`x` [streams, rows + lookahead, dim] -> frames [streams, RATIO * rows, dim].

        `known` [streams, rows + lookahead] says where there is a token: after the last one of a stream there is nothing.
        """
        x = self.enter(x) * known[..., None]
        ahead = F.leaky_relu(self.ahead(x.transpose(1, 2)).transpose(1, 2))
        x = x[:, : ahead.shape[1]] + self.back(tokens.behind(0, ahead, 2).transpose(1, 2)).transpose(1, 2)
        for entry, block in enumerate(self.lower):
            x = block(x, entry, tokens)
        x = frames.behind(0, x.repeat_interleave(RATIO, 1), 2 * RATIO)
        x = self.enter_upper(self.up(x.transpose(1, 2)).transpose(1, 2))
        for entry, block in enumerate(self.upper):
            x = block(x, entry, frames)
        return self.norm(x)


def _sinusoid(positions: Tensor, dim: int) -> Tensor:
    """[n] -> [n, dim], sines and cosines in turn."""
    rates = torch.exp(torch.arange(0, dim, 2, device=positions.device) * (-math.log(10_000.0) / dim))
    angles = positions[:, None].float() * rates
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
