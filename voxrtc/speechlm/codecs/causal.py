"""Causal convolutions over many streams at once, as products of matrices.

A codec works on rows: one a time step, [rows, channels], the streams of a call laid end to end. Its convolutions see a
row and some before it, so all that has to be remembered of a stream are each layer's last few input rows; before the
first row there are zeros, as a whole-utterance computation pads. Such a window of consecutive rows is one longer row, and
a convolution a linear layer on it: oneDNN computes that faster than convolutions, which want another layout.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from voxrtc.speechlm.codecs.lanes import Lanes


class Causal(nn.Module):
    """A layer that sees windows of `size` rows of `channels`, `stride` rows apart. `index` is its place in a context."""

    index: int

    def __init__(self, channels: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.channels, self.size, self.stride = channels, size, stride


class Context:
    """What the causal layers of a codec remember of one stream."""

    def __init__(self, codec: nn.Module, device: torch.device) -> None:
        layers = causal_layers(codec)
        self.rows = [torch.zeros(layer.size - layer.stride, layer.channels, device=device) for layer in layers]


def causal_layers(codec: nn.Module) -> list[Causal]:
    """The layers that remember, in a fixed order, which `number` makes their indices."""
    return [module for module in codec.modules() if isinstance(module, Causal)]


def number(codec: nn.Module) -> None:
    """Give each causal layer of a finished codec its index."""
    for index, layer in enumerate(causal_layers(codec)):
        layer.index = index


class Call:
    """One call of a codec on new rows of several streams. `counts` are the rows of each stream at the present rate."""

    def __init__(self, contexts: Sequence[Context], counts: Sequence[int]) -> None:
        self.counts = list(counts)
        self._contexts = contexts
        self._after = [list(context.rows) for context in contexts]

    def windows(self, layer: Causal, x: Tensor) -> Tensor:
        """New rows [sum(counts), channels] -> the windows that they complete [sum(counts) / stride, size * channels]."""
        windows = []
        shape, step = layer.size * layer.channels, layer.stride * layer.channels
        for context, after, new in zip(self._contexts, self._after, x.split(self.counts), strict=True):
            rows = torch.cat((context.rows[layer.index], new))
            after[layer.index] = rows[len(new) :].clone()  # a slice would keep all of `rows` alive
            windows.append(rows.as_strided((len(new) // layer.stride, shape), (step, 1)))
        self.counts = [count // layer.stride for count in self.counts]
        return torch.cat(windows)

    def upsample(self, ratio: int) -> None:
        """From here on there are `ratio` times as many rows."""
        self.counts = [count * ratio for count in self.counts]

    def commit(self) -> None:
        """Move the contexts on. Last of all, so that a call that fails has moved none."""
        for context, rows in zip(self._contexts, self._after, strict=True):
            context.rows = rows


class LaneCall:
    """The same over lanes."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes, self._rate = lanes, 1

    def windows(self, layer: Causal, x: Tensor) -> Tensor:
        """As `Call.windows`."""
        assert layer.stride == 1, "codes become sound in lanes, sound becomes codes at once"
        kept = self._lanes.remembered(layer.size - 1, layer.channels)
        rows = torch.cat((kept, x.unflatten(0, (self._lanes.count, -1))), 1)
        kept.copy_(rows.take_along_dim(self._lanes.latest(layer.size - 1, self._rate)[..., None], 1))
        return rows.flatten(1).unfold(1, layer.size * layer.channels, layer.channels).flatten(0, 1)

    def upsample(self, ratio: int) -> None:
        """As `Call.upsample`."""
        self._rate *= ratio


def width(codec: nn.Module) -> int:
    """Floats that the causal layers of a decoder remember of a stream."""
    return sum((layer.size - 1) * layer.channels for layer in causal_layers(codec))


class CausalConv(Causal):
    """A convolution; `taps` has the window's oldest row first."""

    def __init__(self, channels: int, out: int, size: int, stride: int = 1, bias: bool = True) -> None:
        super().__init__(channels, size, stride)
        self.taps = nn.Linear(size * channels, out, bias)

    def forward(self, x: Tensor, call: Call | LaneCall) -> Tensor:
        """[rows, channels] -> [rows / stride, out]."""
        return self.taps(call.windows(self, x))


class CausalUpsample(Causal):
    """A transposed convolution whose kernel is twice its stride: each new row is a mix of two old ones."""

    def __init__(self, channels: int, out: int, ratio: int) -> None:
        super().__init__(channels, 2)
        self.out, self.ratio = out, ratio
        self.taps = nn.Linear(2 * channels, ratio * out)

    def forward(self, x: Tensor, call: Call | LaneCall) -> Tensor:
        """[rows, channels] -> [rows * ratio, out]."""
        rows = self.taps(call.windows(self, x))
        call.upsample(self.ratio)
        return rows.view(-1, self.out)


class ChannelUpsample(Causal):
    """The same for each channel by itself, without a bias."""

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__(channels, 2)
        self.ratio = ratio
        self.taps = nn.Parameter(torch.zeros(2, ratio, channels))  # for the older and the newer row

    def forward(self, x: Tensor, call: Call | LaneCall) -> Tensor:
        """[rows, channels] -> [rows * ratio, channels]."""
        old, new = call.windows(self, x).view(-1, 2, 1, self.channels).unbind(1)
        call.upsample(self.ratio)
        return torch.addcmul(old * self.taps[0], new, self.taps[1]).flatten(0, 1)
