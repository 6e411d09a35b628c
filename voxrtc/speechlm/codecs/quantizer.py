"""Mimi's quantizer (Moshi, arXiv 2410.00037, section 3.3.3): features of a frame <-> one code of each codebook.

Split: the first codebooks hold what was said and see the features by themselves; the acoustic ones are residual, each for what
those before it left over (SoundStream, arXiv 2107.03312, section III-C).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class QuantizerConfig:
    """Shape of a split quantizer."""

    books: int
    semantic: int  # of them, the first ones
    size: int  # entries of a codebook
    dim: int  # width of an entry
    features: int  # width of a frame


class SplitQuantizer(nn.Module):
    """Both parts' codebooks in one table; their projections side by side."""

    def __init__(self, config: QuantizerConfig) -> None:
        super().__init__()
        self.config = config
        self.entries = nn.Parameter(torch.zeros(config.books, config.size, config.dim))
        self.enter = nn.Linear(config.features, 2 * config.dim, bias=False)  # the semantic part's rows first
        self.leave = nn.Linear(2 * config.dim, config.features, bias=False)  # its columns first

    def decode(self, codes: Tensor) -> Tensor:
        """[frames, books] -> features [frames, features]."""
        config = self.config
        rows = codes + torch.arange(0, config.books * config.size, config.size, device=codes.device)
        table = self.entries.flatten(0, 1)
        parts = rows.split([config.semantic, config.books - config.semantic], dim=1)
        return self.leave(torch.cat([F.embedding_bag(part, table, mode="sum") for part in parts], dim=1))

    def encode(self, features: Tensor) -> Tensor:
        """[frames, features] -> the codes [frames, books] whose entries are nearest, one codebook after the other."""
        semantic, acoustic = self.enter(features).chunk(2, dim=1)
        split = self.config.semantic
        return torch.cat([_nearest(semantic, self.entries[:split]), _nearest(acoustic, self.entries[split:])], dim=1)


def _nearest(rest: Tensor, books: Tensor) -> Tensor:
    codes = []
    for entries in books:
        codes.append(torch.cdist(rest, entries).argmin(dim=1))
        rest = rest - entries[codes[-1]]
    return torch.stack(codes, dim=1)
