"""A transformer that sees the last `context` rows of a stream without end, over many streams at once.

Its blocks are the decoder's that all families share; only where keys and values lie is its own. A stream's lie in buffers
somewhat longer than the context: new rows are appended, and once the end is reached the last of them move to the front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.lanes import Lanes
from voxrtc.speechlm.layers.attention import rope_at
from voxrtc.speechlm.layers.decoder import DecoderBlock, DecoderConfig


class History:
    """Keys and values of one stream's latest rows."""

    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        self.position = 0  # rows that have been
        self.end = 0  # of them in the buffers
        self._buffers = torch.empty(2, config.layers, 0, config.kv_heads, config.head_dim, device=device)

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self._buffers.device

    def make_room(self, count: int, keep: int) -> None:
        """See to it that `count` rows fit behind the last `keep`."""
        if self.end + count <= self._buffers.shape[2]:
            return
        kept = self._buffers[:, :, max(0, self.end - keep) : self.end]
        self.end = kept.shape[2]
        size = list(self._buffers.shape)
        size[2] = max(3 * keep, keep + 2 * count)
        self._buffers = self._buffers.new_empty(size)
        self._buffers[:, :, : self.end] = kept

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put new rows [n, heads, head_dim] behind the present ones, without counting them yet."""
        self._buffers[0, layer, self.end : self.end + len(keys)] = keys
        self._buffers[1, layer, self.end : self.end + len(keys)] = values

    def read(self, layer: int, rows: slice) -> Tensor:
        """Keys and values of `rows` of the buffers, [2, heads, n, head_dim]."""
        return self._buffers[:, layer, rows].transpose(1, 2)


@dataclass(frozen=True)
class _Turn:
    """One stream's part in a call."""

    history: History
    count: int
    rows: slice  # of the buffers: what its queries may see
    mask: Tensor  # [count, rows]


class SlidingAttention:
    """`layers.attention.Attention` of one call: `counts[i]` new rows of stream i, which lie end to end."""

    def __init__(self, histories: Sequence[History], counts: Sequence[int], context: int) -> None:
        self._counts = list(counts)
        self._turns = [self._turn(*stream, context) for stream in zip(histories, counts, strict=True)]
        spans = [torch.arange(history.position, history.position + n) for history, n in zip(histories, counts, strict=True)]
        self.positions = torch.cat(spans).to(histories[0].device)

    def _turn(self, history: History, count: int, context: int) -> _Turn:
        history.make_room(count, context - 1)
        rows = slice(max(0, history.end - context + 1), history.end + count)
        ours, seen = (torch.arange(start, rows.stop, device=history.device) for start in (history.end, rows.start))
        back = ours[:, None] - seen
        return _Turn(history, count, rows, (back >= 0) & (back < context))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """`q`, `k`, `v` [sum(counts), heads, head_dim] -> what each row sees, of the same shape."""
        parts = (x.split(self._counts) for x in (q, k, v))
        return torch.cat([self._see(turn, layer, *part) for turn, *part in zip(self._turns, *parts, strict=True)])

    def _see(self, turn: _Turn, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not turn.count:
            return q
        turn.history.write(layer, k, v)
        keys, values = turn.history.read(layer, turn.rows)
        seen = F.scaled_dot_product_attention(q.transpose(0, 1)[None], keys[None], values[None], attn_mask=turn.mask)
        return seen[0].transpose(0, 1)

    def commit(self) -> None:
        """Count the new rows. Last of all, so that a call that fails has moved no stream."""
        for turn in self._turns:
            turn.history.end += turn.count
            turn.history.position += turn.count


class LaneAttention:
    """The same over lanes, `rate` rows a frame. A layer remembers the keys and values that its next rows may see."""

    def __init__(self, lanes: Lanes, rate: int, config: DecoderConfig) -> None:
        self._lanes, self._size, self._past = lanes, (config.kv_heads, config.head_dim), config.positions - 1
        seen = lanes.columns(rate, before=self._past)
        ours = seen[:, self._past :]
        back = ours[:, :, None] - seen[:, None]
        self._mask = ((back >= 0) & (back < config.positions) & (seen >= 0)[:, None])[:, None]
        self._latest = lanes.latest(self._past, rate)[:, None, :, None, None]
        self.positions = ours.flatten()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """As `SlidingAttention.attend`."""
        kept = self._lanes.remembered(2, self._past, *self._size)
        new = torch.stack((k, v)).unflatten(1, (self._lanes.count, -1)).transpose(0, 1)
        rows = torch.cat((kept, new), 2)
        kept.copy_(rows.take_along_dim(self._latest, 2))
        keys, values = rows.transpose(2, 3).unbind(1)
        asking = q.unflatten(0, (self._lanes.count, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(asking, keys, values, attn_mask=self._mask).transpose(1, 2).flatten(0, 1)


class SlidingTransformer(nn.Module):
    """The blocks, without a norm at the end. `config.positions` is the context: how many rows one sees, itself included."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(DecoderBlock(config, layer) for layer in range(config.layers))

    @property
    def width(self) -> int:
        """Floats that it remembers of a stream in lanes."""
        config = self.config
        return 2 * config.layers * (config.positions - 1) * config.kv_heads * config.head_dim

    def attention(self, histories: Sequence[History], counts: Sequence[int]) -> SlidingAttention:
        """The attention of a call on `counts[i]` new rows of stream i."""
        return SlidingAttention(histories, counts, self.config.positions)

    def forward(self, x: Tensor, attention: SlidingAttention | LaneAttention) -> Tensor:
        """[sum(counts), dim] -> [sum(counts), dim]."""
        rope = rope_at(attention.positions, self.config.head_dim, self.config.rope_theta)
        for block in self.blocks:
            x = block(x, rope, attention)
        return x
