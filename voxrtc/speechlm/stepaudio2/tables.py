"""Per-stream numbers of Step-Audio 2, with a row a slot of the engine."""

from __future__ import annotations

import torch
from torch import Tensor

from voxrtc.speechlm.stepaudio2.prompt import Written


class Vectors:
    """What the prompts in all slots have of recordings, one behind the other, as these are of any length."""

    def __init__(self, slots: int, nothing: Tensor) -> None:
        """`nothing` [0, dim] is what a prompt without recordings has."""
        self._of = [nothing] * slots
        self._first = torch.zeros(slots, dtype=torch.long, device=nothing.device)
        self._all = nothing.new_zeros(1, nothing.shape[1])  # a row for whoever has none

    def put(self, slot: int, vectors: Tensor) -> None:
        """Give a slot its own [n, dim], over whatever was there."""
        if not len(vectors) and not len(self._of[slot]):
            return
        self._of[slot] = vectors
        counts = torch.tensor([1, *map(len, self._of)])
        self._first = counts.cumsum(0)[:-1].to(self._first.device)
        self._all = torch.cat([self._all[:1], *self._of])

    def rows(self, slots: Tensor, index: Tensor) -> Tensor:
        """The vectors of number `index` [n] of slots [n]; any vector where that is below 0."""
        return self._all[torch.where(index < 0, 0, self._first[slots] + index)]


class StepTables:
    """All of a stream's tokens in their order, the prompt's and those that were sampled; and the prompt's vectors."""

    def __init__(self, slots: int, positions: int, nothing: Tensor) -> None:
        none = torch.full((slots, positions), -1, device=nothing.device)
        self.ids, self.index = none, none.clone()  # of tokens; of vectors that stand in a token's place
        self.length = torch.zeros(slots, dtype=torch.long, device=nothing.device)  # of prompt and sampled tokens
        self.vectors = Vectors(slots, nothing)

    def put(self, slot: int, prompt: Written, heard: int) -> None:
        """Put a prompt into a slot, over whatever was there; its vectors stand in the places of token `heard`."""
        places = (prompt.ids == heard).nonzero()[:, 0]
        assert len(places) == len(prompt.vectors), "a vector for each place"
        index = torch.full_like(prompt.ids, -1).index_put((places,), torch.arange(len(places)))
        for table, row in ((self.ids, prompt.ids), (self.index, index)):
            table[slot] = -1
            table[slot, : len(row)] = row.to(table.device)
        self.length[slot] = len(prompt.ids)
        self.vectors.put(slot, prompt.vectors)

    def add(self, slots: Tensor, ids: Tensor) -> None:
        """Add a sampled token to each of slots [n]."""
        self.ids[slots, self.length[slots]] = ids
        self.length[slots] += 1
