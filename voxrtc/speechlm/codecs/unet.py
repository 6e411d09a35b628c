"""The network of CosyVoice 2's flow (arXiv 2412.10117, section 2.3; Matcha-TTS's, 2309.03199, made causal): what flows where.

A U without a bow: one stage down, twelve in the middle, one up, all at the same rate. A stage is a residual block of causal
convolutions, which adds what it is told of the time, and four transformer blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.blocks import BlockCall
from voxrtc.speechlm.codecs.estimator import Convolution, Estimator, Step


@dataclass(frozen=True)
class UNetConfig:
    """Shape of the network."""

    mel: int = 80
    dim: int = 256
    middle: int = 12  # stages
    depth: int = 4  # transformer blocks of a stage
    heads: int = 8
    head_dim: int = 64

    @property
    def inputs(self) -> int:
        """Channels in: the sample so far, the encoder's frame, the speaker, the prompt."""
        return 4 * self.mel

    @property
    def stages(self) -> int:
        return self.middle + 2

    def build(self) -> UNet:
        """Without weights."""
        return UNet(self)


class ConvolutionBlock(nn.Module):
    """Convolution, norm, activation."""

    def __init__(self, channels: int, out: int, number: int) -> None:
        super().__init__()
        self.convolution, self.norm = Convolution(channels, out, number), nn.LayerNorm(out)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        return F.mish(self.norm(self.convolution(x, step)))


class TransformerBlock(nn.Module):
    """Attention without positions, which the convolutions know, and a feed-forward."""

    def __init__(self, config: UNetConfig, number: int) -> None:
        super().__init__()
        self.number, self.heads = number, config.heads
        self.attention_norm, self.ffn_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.qkv = nn.Linear(config.dim, 3 * config.heads * config.head_dim, bias=False)
        self.output = nn.Linear(config.heads * config.head_dim, config.dim)
        self.up, self.down = nn.Linear(config.dim, 4 * config.dim), nn.Linear(4 * config.dim, config.dim)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        x = x + self.output(step.attend(self.number, q, k, v).flatten(2))
        return x + self.down(F.gelu(self.up(self.ffn_norm(x))))


class Stage(nn.Module):
    """A residual block, then transformer blocks; `number` is its place."""

    def __init__(self, config: UNetConfig, number: int, channels: int) -> None:
        super().__init__()
        self.number, time = number, 4 * config.dim
        self.first = ConvolutionBlock(channels, config.dim, 2 * number)
        self.second = ConvolutionBlock(config.dim, config.dim, 2 * number + 1)
        self.time, self.skip = nn.Linear(time, config.dim), nn.Linear(channels, config.dim)
        self.blocks = nn.ModuleList(TransformerBlock(config, number * config.depth + i) for i in range(config.depth))

    def forward(self, x: Tensor, step: Step) -> Tensor:
        hidden = self.second(self.first(x, step) + step.told[self.number], step)
        x = hidden + self.skip(x)
        for block in self.blocks:
            x = block(x, step)
        return x


class Times(nn.Module):
    """A time of 0 to 1 -> what the stages are told of it."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.inputs = config.inputs
        self.first, self.second = nn.Linear(config.inputs, 4 * config.dim), nn.Linear(4 * config.dim, 4 * config.dim)

    def forward(self, times: Tensor) -> Tensor:
        """[n] -> [n, 4 * dim]."""
        half = self.inputs // 2
        rates = torch.exp(torch.arange(half, device=times.device) * (-math.log(10_000.0) / (half - 1)))
        angles = 1000 * times[:, None] * rates
        return self.second(F.silu(self.first(torch.cat((angles.sin(), angles.cos()), -1))))


class UNet(Estimator):
    """Velocities of mel frames."""

    shifts: Tensor

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config, last = config, 2 * config.stages
        self.times = Times(config)
        self.down = Stage(config, 0, config.inputs)
        self.middle = nn.ModuleList(Stage(config, 1 + i, config.dim) for i in range(config.middle))
        self.up = Stage(config, 1 + config.middle, 2 * config.dim)
        self.after_down, self.after_up = (
            Convolution(config.dim, config.dim, last),
            Convolution(config.dim, config.dim, last + 1),
        )
        self.last = ConvolutionBlock(config.dim, config.dim, last + 2)
        self.leave = nn.Linear(config.dim, config.mel)

    @property
    def stages(self) -> Sequence[Stage]:
        return (self.down, *self.middle, self.up)

    @torch.no_grad()
    def prepare(self, times: Tensor) -> None:
        """What is added for each of the times [steps] at which it will be asked. After its weights are filled."""
        told = F.mish(self.times(times.to(self.leave.weight.device)))
        self.shifts = torch.stack([stage.time(told) for stage in self.stages], 1)

    def forward(self, x: Tensor, number: int, call: BlockCall) -> Tensor:
        stages = self.config.stages
        step = Step(number, self.shifts[number], call, stages * self.config.depth, 2 * stages + 3)
        skip = self.down(x, step)
        x = self.after_down(skip, step)
        for stage in self.middle:
            x = stage(x, step)
        x = self.after_up(self.up(torch.cat((x, skip), -1), step), step)
        return self.leave(self.last(x, step))
