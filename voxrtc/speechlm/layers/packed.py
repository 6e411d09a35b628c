"""Linear layers whose weights lie as the CPU's kernels want them.

A plain `nn.Linear` hands its weights to BLAS as they are. For a few rows, a decode step's, BLAS then spends its time on
rearranging them anew in each call: 4 rows cost twice as much as 1, where reading the weights once would do for both. oneDNN
can rearrange them once and for all: measured on one core over the matrices of a 75M decoder, in ms for 1, 4, 8, 16 rows,
14.8, 25.9, 31.9, 43.8 plain and 9.1, 10.0, 12.4, 16.8 packed. For small matrices and few rows a plain call is cheaper.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_ROWS = 4  # the layout is chosen for so few; it serves more rows as well as any


class PackedLinear(nn.Module):
    """An `nn.Linear` that can only be computed any more: no training, no state dict. [..., in] -> [..., out]."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(plain.weight.detach(), _ROWS)
        self._bias = None if plain.bias is None else plain.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")


def pack(module: nn.Module, smallest: int = 256 * 256) -> None:
    """Replace linear layers of `smallest` weights or more inside `module`, where this build of torch has oneDNN.

    The default is for a row a stream; with tens of rows every layer gains.
    """
    if not torch.backends.mkldnn.is_available():
        return
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.weight.numel() >= smallest and child.weight.device.type == "cpu":
            setattr(module, name, PackedLinear(child))
        else:
            pack(child, smallest)
