"""SEANet, the convolutions of EnCodec (arXiv 2210.13438) and Mimi: rows of features -> samples, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.causal import Call, CausalConv, CausalUpsample, LaneCall


@dataclass(frozen=True)
class SeanetConfig:
    """Shape of a SEANet: `ratios` lead from features to samples, `filters` is the width at the samples' side."""

    dim: int
    filters: int
    ratios: tuple[int, ...]
    kernel: int  # of the first layer
    last_kernel: int  # of the last
    residual_kernel: int = 3
    compress: int = 2  # by how much a residual block narrows

    @property
    def hop(self) -> int:
        """Samples a row of features."""
        product = 1
        for ratio in self.ratios:
            product *= ratio
        return product


class Residual(nn.Module):
    """Two convolutions, the second of one row, added to what came in."""

    def __init__(self, dim: int, config: SeanetConfig) -> None:
        super().__init__()
        self.narrow = CausalConv(dim, dim // config.compress, config.residual_kernel)
        self.widen = nn.Linear(dim // config.compress, dim)

    def forward(self, x: Tensor, call: Call | LaneCall) -> Tensor:
        """[rows, dim] -> [rows, dim]."""
        return x + self.widen(F.elu(self.narrow(F.elu(x), call), inplace=True))


class SeanetDecoder(nn.Module):
    """Features [rows, dim] -> samples [rows * hop]."""

    def __init__(self, config: SeanetConfig) -> None:
        super().__init__()
        width = config.filters << len(config.ratios)
        self.first = CausalConv(config.dim, width, config.kernel)
        self.ups, self.residuals = nn.ModuleList(), nn.ModuleList()
        for ratio in config.ratios:
            self.ups.append(CausalUpsample(width, width // 2, ratio))
            self.residuals.append(Residual(width // 2, config))
            width //= 2
        self.last = CausalConv(width, 1, config.last_kernel)

    def forward(self, x: Tensor, call: Call | LaneCall) -> Tensor:
        x = self.first(x, call)
        for up, residual in zip(self.ups, self.residuals, strict=True):
            x = residual(up(F.elu(x, inplace=True), call), call)
        return self.last(F.elu(x, inplace=True), call)[:, 0]


class SeanetEncoder(nn.Module):
    """Samples [rows * hop, 1] -> features [rows, dim]."""

    def __init__(self, config: SeanetConfig) -> None:
        super().__init__()
        width = config.filters
        self.first = CausalConv(1, width, config.kernel)
        self.residuals, self.downs = nn.ModuleList(), nn.ModuleList()
        for ratio in reversed(config.ratios):
            self.residuals.append(Residual(width, config))
            self.downs.append(CausalConv(width, 2 * width, 2 * ratio, stride=ratio))
            width *= 2
        self.last = CausalConv(width, config.dim, config.last_kernel)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        x = self.first(x, call)
        for residual, down in zip(self.residuals, self.downs, strict=True):
            x = down(F.elu(residual(x, call), inplace=True), call)
        return self.last(F.elu(x, inplace=True), call)
