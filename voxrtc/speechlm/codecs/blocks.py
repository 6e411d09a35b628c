"""Many streams through layers that work block by block, each exactly as if it had come whole.

A row (one of a token, or a frame of a mel spectrogram) sees all of its own block, which hence must be there whole, and blocks
before it: the `left` nearest ones, and those that hold a stream's prompt, which it never forgets. Blocks are counted from the
stream's first row, whatever a call brings, so the sound does not depend on calls; and a stream remembers no more as it grows.
Streams of a call lie in a batch, filled up behind their last row, where causal layers do not look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

NOWHERE = -1  # the position of a row that only fills up


@dataclass(frozen=True)
class Grid:
    """Rows of a block, and how many blocks to its left a block sees."""

    size: int
    left: int


@dataclass(frozen=True)
class Remembered:
    """Keys and values of rows up to the end of block `number`: [entries, copies, 2, rows, width]."""

    number: int
    rows: Tensor

    def positions(self, size: int) -> Tensor:
        """Of its rows in the stream."""
        count = self.rows.shape[3]
        return (self.number + 1) * size - count + torch.arange(count)


@dataclass
class Memory:
    """What one stream's layers remember between calls. Its tensors are never written to: copies share them."""

    kept: int = 0  # blocks, from the first, that stay
    position: int = 0  # rows that have been
    past: list[Remembered] = field(default_factory=list)
    tails: dict[int, Tensor] = field(default_factory=dict)  # of each convolution, its last inputs [copies, reach, channels]

    def copy(self) -> Memory:
        """Another stream's, that goes on from here."""
        return Memory(self.kept, self.position, list(self.past), dict(self.tails))

    def halved(self) -> Memory:
        """The same in half the room: 16 bits for what has been. It is computed with in 32 as before."""
        return replace(self, past=[replace(part, rows=part.rows.half()) for part in self.past])

    @property
    def bytes(self) -> int:
        """That it takes, those included that it shares."""
        return sum(rows.nbytes for rows in (*(part.rows for part in self.past), *self.tails.values()))


class BlockCall:
    """One call on `counts[i]` new rows of stream i, which begin a block; they end one, or the stream.

    Each stream is there `copies` times, with memories of its own: all streams once, then all again. So x is
    [copies * streams, rows, channels], where `rows` is the most that a stream brings. Layers are told apart by `entry`.
    """

    def __init__(self, memories: Sequence[Memory], counts: Sequence[int], grid: Grid, device: torch.device, copies: int = 1):
        assert all(memory.position % grid.size == 0 for memory in memories), "a call goes on in the middle of a block"
        self._memories, self._counts, self._grid, self._copies = memories, list(counts), grid, copies
        self.rows = max(counts)
        self._fresh: dict[int, Tensor] = {}
        self._tails: dict[int, Tensor] = {}
        past = [self._past_positions(memory) for memory in memories]
        self._seen = max(map(len, past))
        new = torch.stack(
            [_fill(memory.position + torch.arange(n), self.rows) for memory, n in zip(memories, counts, strict=True)]
        )
        keys = torch.cat((torch.stack([_fill(part, self._seen) for part in past]), new), 1)
        visible = self._visible(new, keys)
        distances = torch.where(visible, new[:, :, None] - keys[:, None], 0)
        self.nearest, self.farthest = int(distances.min()), int(distances.max())
        self.distances = distances.to(device)  # [streams, rows, keys]; 0 where nothing is seen
        self._mask = visible.repeat(copies, 1, 1)[:, None].to(device)
        self._ends = (torch.tensor(self._counts)[:, None]).repeat(copies, 1).to(device)

    def _past_positions(self, memory: Memory) -> Tensor:
        spans = [part.positions(self._grid.size) for part in memory.past]
        return torch.cat(spans) if spans else torch.empty(0, dtype=torch.long)

    def _visible(self, rows: Tensor, keys: Tensor) -> Tensor:
        """Positions [n, rows] and [n, keys] -> who sees whom [n, rows, keys]. What only fills up sees itself."""
        block, other = rows[:, :, None] // self._grid.size, keys[:, None] // self._grid.size
        kept = torch.tensor([memory.kept for memory in self._memories])[:, None, None]
        visible = (keys >= 0)[:, None] & (other <= block) & ((other < kept) | (other >= block - self._grid.left))
        alone = torch.arange(keys.shape[1]) == self._seen + torch.arange(rows.shape[1])[:, None]
        return torch.where((rows >= 0)[:, :, None], visible, alone)

    def attend(self, entry: int, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        """`q`, `k`, `v` [copies * streams, rows, heads, dim] -> what each row sees, of the same shape.

        `bias` [copies * streams, heads, rows, keys] is added to the scaled products.
        """
        self._fresh[entry] = torch.stack((k.flatten(2), v.flatten(2)), 1)
        keys, values = torch.cat((self._past(entry), self._fresh[entry]), 2).unflatten(3, q.shape[2:]).transpose(2, 3).unbind(1)
        mask = self._mask if bias is None else bias.masked_fill(~self._mask, -torch.inf)
        return F.scaled_dot_product_attention(q.transpose(1, 2), keys, values, attn_mask=mask).transpose(1, 2)

    def _past(self, entry: int) -> Tensor:
        """What is remembered of a layer, [copies * streams, 2, seen, width]."""
        like = self._fresh[entry]
        filled = like.new_zeros(self._copies, len(self._memories), 2, self._seen, like.shape[-1])
        for stream, memory in enumerate(self._memories):
            at = 0
            for part in memory.past:
                rows = part.rows[entry]
                filled[:, stream, :, at : at + rows.shape[2]] = rows
                at += rows.shape[2]
        return filled.flatten(0, 1)

    def behind(self, entry: int, x: Tensor, reach: int) -> Tensor:
        """Put before each stream's new rows the `reach` before them: zeros, before the first. [.., reach + rows, channels]."""
        none = x.new_zeros(self._copies, reach, x.shape[-1])
        before = torch.stack([memory.tails.get(entry, none) for memory in self._memories], 1).flatten(0, 1)
        whole = torch.cat((before, x), 1)
        at = (self._ends + torch.arange(reach, device=x.device))[:, :, None].expand(-1, -1, x.shape[-1])
        self._tails[entry] = whole.gather(1, at)
        return whole

    def commit(self) -> None:
        """Move the memories on. Last of all, so that a call that fails has moved none."""
        streams = len(self._memories)
        fresh = [self._fresh[entry].unflatten(0, (self._copies, streams)) for entry in sorted(self._fresh)]
        tails = {entry: tail.unflatten(0, (self._copies, streams)) for entry, tail in self._tails.items()}
        for i, (memory, count) in enumerate(zip(self._memories, self._counts, strict=True)):
            memory.tails = {entry: tail[:, i].clone() for entry, tail in tails.items()}
            self._remember(memory, [part[:, i, :, :count] for part in fresh], count)
            memory.position += count

    def _remember(self, memory: Memory, fresh: list[Tensor], count: int) -> None:
        """Take new blocks in, and drop those that the next one does not see."""
        size, first = self._grid.size, memory.position // self._grid.size
        oldest = first + -(-count // size) - self._grid.left  # that the next block sees, of those that are not kept
        for number in range(first, first + -(-count // size)):
            if number < memory.kept or number >= oldest:
                begin = (number - first) * size
                memory.past.append(Remembered(number, torch.stack([part[:, :, begin : begin + size] for part in fresh])))
        memory.past = [part for part in memory.past if part.number < memory.kept or part.number >= oldest]


def _fill(positions: Tensor, count: int) -> Tensor:
    return F.pad(positions, (0, count - len(positions)), value=NOWHERE)
