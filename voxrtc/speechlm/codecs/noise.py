"""Gaussian noise that a stream can have anywhere, in any order: rows of an endless table that its seed chooses.

A block of rows is one key of a counter-based generator (Philox, Salmon et al., SC 2011), so nothing is carried from call to
call, and a row is the same however the rows are asked for. It is made on the host: no device waits for it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

ROWS = 10  # of a block


class Noise(Protocol):
    """Rows of Gaussian numbers."""

    def rows(self, begin: int, end: int) -> Tensor:
        """Rows `begin` to `end` [end - begin, width], on the host."""
        ...


class SeededNoise:
    """Of mean 0 and variance 1, `width` to a row. `kind` keeps several tables of one seed apart."""

    def __init__(self, seed: int, width: int, kind: int = 0) -> None:
        self._key, self._width = np.array([seed % 2**64, kind], dtype=np.uint64), width

    def rows(self, begin: int, end: int) -> Tensor:
        first, last = begin // ROWS, -(-end // ROWS)
        blocks = [self._block(number) for number in range(first, last)]
        table = np.concatenate(blocks) if blocks else np.empty((0, self._width), np.float32)
        return torch.from_numpy(table[begin - first * ROWS : end - first * ROWS])

    def _block(self, number: int) -> np.ndarray:
        generator = np.random.Generator(np.random.Philox(key=self._key, counter=[0, 0, 0, number]))
        return generator.standard_normal((ROWS, self._width), dtype=np.float32)


class GivenNoise:
    """A table [n, width] of one's own."""

    def __init__(self, table: Tensor) -> None:
        self._table = table

    def rows(self, begin: int, end: int) -> Tensor:
        assert end <= len(self._table), f"row {end} of {len(self._table)}"
        return self._table[begin:end]
