"""Pocket-TTS's network: text and past latents in, one latent of 80 ms out (Kyutai, `pocket-tts` 4.0.1).

A causal transformer reads a voice, the text, then the latents spoken so far; a small MLP makes the next latent from its
output and noise, in one step (Lagrangian self-distillation, arXiv 2505.18825, and relatives without times).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig
from voxrtc.speechlm.pocket.config import HeadConfig, PocketConfig


class FlowHead(nn.Module):
    """Noise [n, latent] and a condition [n, width] -> a latent [n, latent]; an MLP steered by the condition (AdaLN).

    All layers' shifts, scales and gates come from one projection, since the condition is the same for all. The times of
    the one step, 0 and 1, are constants and part of `condition`'s bias.
    """

    def __init__(self, config: HeadConfig, latent: int, width: int) -> None:
        super().__init__()
        dim, self.depth, self.adds_noise = config.dim, config.depth, config.kind != "drifting"
        self.condition = nn.Linear(width, dim)
        self.steer = nn.Linear(dim, (3 * config.depth + 2) * dim)
        self.enter = nn.Linear(latent, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=1e-6) for _ in range(config.depth))
        self.ups = nn.ModuleList(nn.Linear(dim, dim) for _ in range(config.depth))
        self.downs = nn.ModuleList(nn.Linear(dim, dim) for _ in range(config.depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6, elementwise_affine=False)
        self.leave = nn.Linear(dim, latent)

    def forward(self, noise: Tensor, condition: Tensor) -> Tensor:
        steering = self.steer(F.silu(self.condition(condition))).chunk(3 * self.depth + 2, dim=-1)
        x = self.enter(noise)
        for i, (norm, up, down) in enumerate(zip(self.norms, self.ups, self.downs, strict=True)):
            shift, scale, gate = steering[3 * i : 3 * i + 3]
            h = torch.addcmul(shift, norm(x), 1 + scale)
            x = torch.addcmul(x, gate, down(F.silu(up(h))))
        shift, scale = steering[-2:]
        out = self.leave(torch.addcmul(shift, self.norm(x), 1 + scale))
        return noise + out if self.adds_noise else out


class PocketNetwork(nn.Module):
    """The language model. `positions` bounds voice, text and latents together."""

    def __init__(self, config: PocketConfig, decoder: DecoderConfig) -> None:
        super().__init__()
        dim, width = decoder.dim, config.condition or decoder.dim
        self.config = config
        self.text = nn.Embedding(config.vocabulary + 1, dim)
        self.latent = nn.Linear(config.latent, dim, bias=False)
        self.decoder = Decoder(decoder)
        self.narrow = nn.Linear(dim, width, bias=False) if config.condition else nn.Identity()
        self.eos = nn.Linear(width, 1)
        self.head = FlowHead(config.head, config.latent, width)
        self.begin = nn.Parameter(torch.zeros(config.latent))  # stands for the latent before the first

    def trunk(self, x: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Embedded inputs [..., dim] at positions [...] -> what the heads see [..., width]."""
        return self.narrow(self.decoder(x, positions, attention))

    def ends(self, hidden: Tensor) -> Tensor:
        """Whether the text is spoken, give or take some frames: [n, width] -> [n]."""
        return self.eos(hidden)[:, 0] > self.config.eos_threshold


class Times(nn.Module):
    """A time as a vector, for LSD heads; only its values at 0 and 1 are needed, at loading."""

    HALF, PERIOD = 128, 10_000.0

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2 * self.HALF, dim), nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.ones(dim))
        self.frequencies = nn.Parameter(torch.exp(-math.log(self.PERIOD) * torch.arange(self.HALF) / self.HALF))

    def forward(self, time: float) -> Tensor:
        """-> [dim]."""
        angle = time * self.frequencies
        x = self.second(F.silu(self.first(torch.cat([angle.cos(), angle.sin()]))))
        return x * self.scale * torch.rsqrt(1e-5 + x.var())  # a variance about the mean, of a vector that is not centred
