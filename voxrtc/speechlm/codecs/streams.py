"""Many streams through a codec's convolutions at once, each exactly as if it had come whole.

A stream keeps, layer by layer, the columns that later outputs will still see, so each column is computed once. The zeros that a
whole utterance is padded with, layer by layer, stand in a fresh stream's state and are pushed through behind its last column.
Streams lie end to end along time, [channels, time], so that one operation serves all of them; what a convolution finds
across the seam of two streams is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from voxrtc.speechlm.codecs.lanes import Lanes


@dataclass(slots=True)
class StreamState:
    """One stream between calls."""

    kept: list[Tensor]  # of each layer with a memory, [channels, what later outputs see of it]
    passed: list[int]  # columns that came out of each block's upsampling
    noise: int  # where in the table of noise this stream begins
    ended: bool = False


class Call:
    """One call on its way through the layers. The states move on when all is done, by `commit`."""

    def __init__(self, states: Sequence[StreamState], counts: list[int], final: Sequence[bool]) -> None:
        self._states, self._final = states, final
        self._kept: list[list[Tensor]] = [[] for _ in states]
        self._passed: list[list[int]] = [[] for _ in states]
        self._starts = [0]
        self.counts = counts  # columns of each stream at this point

    def extend(self, x: Tensor, reach: int, pad: int) -> Tensor:
        """Put before each stream's columns in `x` the `reach` that came earlier, behind a final one's `pad` of zeros.

        From here on `counts` are the windows of `reach + 1` columns.
        """
        rows = []
        for state, kept, part, last in zip(self._states, self._kept, x.split(self.counts, 1), self._final, strict=True):
            rows.append(torch.cat((state.kept[len(kept)], part, x.new_zeros(len(x), pad * last)), 1))
            kept.append(rows[-1][:, max(0, rows[-1].shape[1] - reach) :].clone())
        lengths = [row.shape[1] for row in rows]
        self._starts = [0, *accumulate(lengths)][:-1]
        self.counts = [max(0, length - reach) for length in lengths]
        return torch.cat(rows, 1)

    def inside(self, x: Tensor) -> Tensor:
        """Of one column for each place where a window of the extended columns may begin, those that lie in one stream."""
        return join([x[:, start : start + count] for start, count in zip(self._starts, self.counts, strict=True)])

    def upsample(self, rate: int) -> None:
        """From here on there are `rate` times as many columns."""
        self.counts = [rate * count for count in self.counts]

    def trim(self, x: Tensor, pad: int) -> tuple[Tensor, Tensor]:
        """Cut `pad` columns at both ends of every utterance -> the rest, and which each of these is in the table of noise."""
        before = [state.passed[len(passed)] for state, passed in zip(self._states, self._passed, strict=True)]
        parts = [
            part[:, pad * (past == 0) : part.shape[1] - pad * last]
            for part, past, last in zip(x.split(self.counts, 1), before, self._final, strict=True)
        ]
        self.counts = [part.shape[1] for part in parts]
        for passed, past, count in zip(self._passed, before, self.counts, strict=True):
            passed.append(past + count)
        first = [state.noise + past for state, past in zip(self._states, before, strict=True)]
        columns = [torch.arange(a, a + n, device=x.device) for a, n in zip(first, self.counts, strict=True)]
        return join(parts), torch.cat(columns)

    def commit(self) -> None:
        """Move the states on."""
        for state, kept, passed, last in zip(self._states, self._kept, self._passed, self._final, strict=True):
            state.kept, state.passed, state.ended = kept, passed, last


class LaneCall:
    """The same over lanes. Columns before a stream's first and behind its last are made like others, and put to zero where
    the next layer would see them."""

    def __init__(self, lanes: Lanes, rate: int) -> None:
        """`rate` columns a frame come in."""
        self._lanes, self._rate = lanes, rate
        self._lag = self._reach = 0

    def extend(self, x: Tensor, reach: int, pad: int) -> Tensor:
        """As `Call.extend`: here every lane has as many windows as it had columns."""
        lanes, columns = self._lanes, self._lanes.columns(self._rate, self._lag)
        x = x.unflatten(1, columns.shape).masked_fill(~lanes.inside(columns, self._rate), 0.0)
        kept = lanes.remembered(len(x), reach).transpose(0, 1)
        rows = torch.cat((kept, x), 2)
        kept.copy_(rows.take_along_dim(lanes.latest(reach, self._rate)[None], 2))
        self._lag, self._reach = self._lag + reach - pad, reach
        return rows.flatten(1)

    def inside(self, x: Tensor) -> Tensor:
        """As `Call.inside`."""
        windows = self._rate * self._lanes.length
        return x.unfold(1, windows, windows + self._reach).flatten(1)

    def upsample(self, rate: int) -> None:
        """As `Call.upsample`."""
        self._rate, self._lag = rate * self._rate, rate * self._lag

    def trim(self, x: Tensor, pad: int) -> tuple[Tensor, Tensor]:
        """As `Call.trim`, but for that nothing is cut: the columns come `pad` later instead."""
        self._lag += pad
        return x, (self._lanes.noise[:, None] + self._lanes.columns(self._rate, self._lag)).flatten()


def join(parts: Sequence[Tensor]) -> Tensor:
    """Along time; what is one part already is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)
