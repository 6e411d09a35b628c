"""Linear layers packed for serving on a CPU."""

from __future__ import annotations

from bisect import bisect_left

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDE = 1024  # inputs beyond which oneDNN adds up a single row's products in another order than several rows'
ROWS = 64  # for which the layout is chosen; measured good for 1 to 160
BLOCKS = (50, 100, 200, 300, 400)  # rows of a flow's blocks, which come often
STEPS = (step * size for step in (4, 8, 16, 32, 64, 128, 256) for size in range(4, 8))
SIZES = (1, 2, 3, 4, 6, 8, 12, *sorted({*STEPS, *BLOCKS, 2048}))


class PackedLinear(nn.Module):
    """`nn.Linear` with its weight in oneDNN's blocked layout: on a CPU about twice as fast for 2 to 160 rows.

    torch's own goes to another library, which packs the weight anew in every call and, for a few rows, spends its time on
    that. And a row's numbers here do not depend on how many rows there are, to the bit: a stream is the same in any batch.

    A weight in bfloat16 is half as much to read, and as much faster; what goes in and comes out may still be float32.

    oneDNN compiles a kernel for each number of rows that it meets, which takes 0.4 ms and 0.5 MB. So rows are filled up to
    one of a few `SIZES`, and `pack` has their kernels made.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.dtype = linear.weight.dtype
        self._least = 2 if linear.in_features > WIDE else 1  # rows
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """[…, in] -> […, out]."""
        if x.dim() > 2:
            return self(x.flatten(0, -2)).unflatten(0, x.shape[:-1])
        rows, most = len(x), SIZES[-1]
        if rows > most:
            return torch.cat([self(part) for part in x.split(most)])
        size = SIZES[bisect_left(SIZES, max(rows, self._least))]
        return self._run(x) if size == rows else self._run(F.pad(x, (0, 0, 0, size - rows)))[:rows]

    def _run(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x.to(self.dtype), self.weight, self.bias, "none", [], "").to(x.dtype)


def pack(module: nn.Module, most: int, smallest: int = 0) -> None:
    """Replace every linear layer below `module`, which is only served from then on, with up to about `most` rows at a time.

    Those of fewer than `smallest` weights stay: for a few rows torch's own are cheaper there. So do those on another device or
    of other numbers. Without oneDNN nothing changes.
    """
    if not torch.backends.mkldnn.is_available():
        return
    kinds: dict[tuple[int, int, bool], PackedLinear] = {}
    # Nobody holds on to a layer that was replaced: of a big model there is never a second one in memory.
    for parent in [each for each in module.modules() if type(each) is not nn.Linear]:
        for name, child in parent.named_children():
            if type(child) is nn.Linear and _packs(child.weight) and child.weight.numel() >= smallest:
                packed = PackedLinear(child)
                setattr(parent, name, packed)
                kinds[packed.in_features, packed.out_features, packed.bias is None] = packed
    for packed in kinds.values():
        for size in SIZES[: bisect_left(SIZES, most) + 1]:
            packed(torch.zeros(size, packed.in_features))


def pack_all(module: nn.Module, most: int) -> None:
    """`pack` a model whose weights may be bfloat16, on a CPU; elsewhere nothing changes.

    The weights stay bfloat16, which saves reading. What is computed from them is float32, for which the engine has its
    attention on a CPU, so norms are, too.
    """
    if any(parameter.device.type != "cpu" for parameter in module.parameters()):
        return
    pack(module, most)
    for child in module.modules():
        if isinstance(child, nn.RMSNorm | nn.LayerNorm | nn.Linear):  # the last where there is no oneDNN
            child.float()


def _packs(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
