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

    def trim(self, x: Tensor, pad: int) -> tuple[Tensor, list[int]]:
        """Cut `pad` columns at both ends of every utterance -> the rest, and where in the noise each stream's goes on."""
        before = [state.passed[len(passed)] for state, passed in zip(self._states, self._passed, strict=True)]
        parts = [
            part[:, pad * (past == 0) : part.shape[1] - pad * last]
            for part, past, last in zip(x.split(self.counts, 1), before, self._final, strict=True)
        ]
        self.counts = [part.shape[1] for part in parts]
        for passed, past, count in zip(self._passed, before, self.counts, strict=True):
            passed.append(past + count)
        return join(parts), [state.noise + past for state, past in zip(self._states, before, strict=True)]

    def commit(self) -> None:
        """Move the states on."""
        for state, kept, passed, last in zip(self._states, self._kept, self._passed, self._final, strict=True):
            state.kept, state.passed, state.ended = kept, passed, last


def join(parts: Sequence[Tensor]) -> Tensor:
    """Along time; what is one part already is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)
