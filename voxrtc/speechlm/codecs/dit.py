"""The network of Step-Audio 2's flow (arXiv 2507.16632): a diffusion transformer (DiT, 2212.09748), made causal.

Its layers know no positions; the two causal convolutions in each tell what is near. What a layer is told of the time scales
and shifts what comes into its three branches, and weighs what they add (“adaLN”).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.blocks import BlockCall
from voxrtc.speechlm.codecs.estimator import Convolution, Estimator, Step

RATES = 128  # of the waves that tell a time
EPSILON = 1e-6  # of norms without weights


@dataclass(frozen=True)
class DiTConfig:
    """Shape of the network."""

    mel: int = 80
    dim: int = 512
    layers: int = 16
    heads: int = 8
    head_dim: int = 64
    ffn_dim: int = 2048

    @property
    def inputs(self) -> int:
        """Channels in: the sample so far, the encoder's frame, the speaker, the prompt."""
        return 4 * self.mel

    def build(self) -> DiT:
        """Without weights."""
        return DiT(self)


class Times(nn.Module):
    """A time of 0 to 1 -> what the layers' modulations are made of."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2 * RATES, dim), nn.Linear(dim, dim)

    def forward(self, times: Tensor) -> Tensor:
        """[n] -> [n, dim]."""
        rates = torch.exp(torch.arange(RATES, device=times.device) * (-math.log(10_000.0) / RATES))
        angles = 1000 * times[:, None] * rates
        return F.silu(self.second(F.silu(self.first(torch.cat((angles.cos(), angles.sin()), -1)))))


class DiTLayer(nn.Module):
    """Attention, convolutions, feed-forward; `number` is its place."""

    def __init__(self, config: DiTConfig, number: int) -> None:
        super().__init__()
        self.number, self.heads, inner = number, config.heads, config.heads * config.head_dim
        self.modulation = nn.Linear(config.dim, 9 * config.dim)
        self.qkv, self.output = nn.Linear(config.dim, 3 * inner), nn.Linear(inner, config.dim)
        self.query_norm, self.key_norm = nn.LayerNorm(config.head_dim), nn.LayerNorm(config.head_dim)
        self.first, self.second = (Convolution(config.dim, config.dim, 2 * number + i) for i in range(2))
        self.between = nn.LayerNorm(config.dim)
        self.up, self.down = nn.Linear(config.dim, config.ffn_dim), nn.Linear(config.ffn_dim, config.dim)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """[batch, rows, dim] -> the same."""
        attention, ffn, convolution = (part.chunk(3) for part in step.told[self.number].chunk(3))
        x = x + attention[2] * self._attend(_modulated(x, *attention[:2]), step)
        x = x + convolution[2] * self._convolve(_modulated(x, *convolution[:2]), step)
        return x + ffn[2] * self.down(F.gelu(self.up(_modulated(x, *ffn[:2])), approximate="tanh"))

    def _attend(self, x: Tensor, step: Step) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        return self.output(step.attend(self.number, self.query_norm(q), self.key_norm(k), v).flatten(2))

    def _convolve(self, x: Tensor, step: Step) -> Tensor:
        return self.second(F.mish(self.between(self.first(x, step))), step)


class DiT(Estimator):
    """Velocities of mel frames."""

    told: Tensor
    last: Tensor

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.config = config
        self.times = Times(config.dim)
        self.enter = nn.Linear(config.inputs, config.dim)
        self.layers = nn.ModuleList(DiTLayer(config, i) for i in range(config.layers))
        self.modulation, self.leave = nn.Linear(config.dim, 2 * config.dim), nn.Linear(config.dim, config.mel)

    @torch.no_grad()
    def prepare(self, times: Tensor) -> None:
        """The modulations of all layers at each of the times [steps]. After its weights are filled."""
        made = self.times(times.to(self.leave.weight.device))
        self.told = torch.stack([layer.modulation(made) for layer in self.layers], 1)
        self.last = self.modulation(made)

    def forward(self, x: Tensor, number: int, call: BlockCall) -> Tensor:
        layers = self.config.layers
        step = Step(number, self.told[number], call, layers, 2 * layers)
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x, step)
        return self.leave(_modulated(x, *self.last[number].chunk(2)))


def _modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Normed, then scaled and shifted."""
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=EPSILON), 1 + scale)
