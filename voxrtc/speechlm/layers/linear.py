"""Linear layers packed for serving on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS = 64  # for which the layout is chosen; measured good for 1 to 160


class PackedLinear(nn.Module):
    """`nn.Linear` with its float32 weight in oneDNN's blocked layout: on a CPU about twice as fast for 2 to 160 rows.

    torch's own goes to another library, which packs the weight anew in every call and, for a few rows, spends its time on
    that. And a row's numbers here do not depend on how many rows there are, to the bit: a stream is the same in any batch.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.out_features = linear.out_features
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


def pack(module: nn.Module) -> None:
    """Replace every linear layer below `module`, which is only served from then on. Without oneDNN nothing changes."""
    if not torch.backends.mkldnn.is_available():
        return
    for name, child in list(module.named_children()):
        if type(child) is nn.Linear:
            setattr(module, name, PackedLinear(child))
        else:
            pack(child)
