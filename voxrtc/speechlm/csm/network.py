"""CSM's two Llamas (Sesame, “Crossing the uncanny valley of conversational voice”; `CsmForConditionalGeneration`).

The backbone sees a position for each text token and each frame, and gives a frame's first code; the depth decoder gives the
others, one by one, from the backbone's output and the codes before. It is run as often as there are codebooks and reads its
weights each time: three quarters of the work, hence for all streams of a step at once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.base import Sampler
from voxrtc.speechlm.csm.config import CsmConfig
from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig
from voxrtc.speechlm.layers.linear import pack_all

MOST_ROWS = 128  # of a step that is not out of the ordinary


class FrameAttention:
    """Attention inside one frame of each of `streams`, whose keys and values last as long as the frame is being made."""

    def __init__(self, config: DecoderConfig, streams: int, like: Tensor) -> None:
        shape = (2, config.layers, streams, config.kv_heads, config.positions, config.head_dim)
        self._cache, self._streams, self._end = like.new_empty(shape), streams, 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """`q`, `k`, `v` [streams * n, heads, head_dim]: the next n positions of each stream."""
        q, k, v = (x.unflatten(0, (self._streams, -1)).transpose(1, 2) for x in (q, k, v))
        count, cache = q.shape[2], self._cache[:, layer, :, :, : self._end + q.shape[2]]
        assert count == 1 or not self._end, "several positions only at the beginning"
        cache[0, :, :, self._end :] = k
        cache[1, :, :, self._end :] = v
        seen = F.scaled_dot_product_attention(q, *cache, is_causal=count > 1, enable_gqa=True)
        return seen.transpose(1, 2).flatten(0, 1)

    def advance(self, count: int) -> None:
        """Count `count` positions, which went through all layers."""
        self._end += count


class Depth(nn.Module):
    """The depth decoder, with a head for each codebook but the first."""

    def __init__(self, config: CsmConfig) -> None:
        super().__init__()
        self.enter = nn.Linear(config.backbone.dim, config.depth.dim, bias=False)
        self.decoder = Decoder(config.depth)
        self.heads = nn.ModuleList(nn.Linear(config.depth.dim, config.codes, bias=False) for _ in range(config.books - 1))

    def begin(self, streams: int, like: Tensor) -> FrameAttention:
        """The attention of a frame."""
        return FrameAttention(self.decoder.config, streams, like)

    def forward(self, x: Tensor, positions: Tensor, attention: FrameAttention) -> Tensor:
        """Inputs [streams, n, backbone dim] at `positions` [streams, n] -> the hidden states of the last [streams, dim]."""
        hidden = self.decoder(self.enter(x.flatten(0, 1)), positions.flatten(), attention)
        attention.advance(x.shape[1])
        return hidden.unflatten(0, x.shape[:2])[:, -1]


class Network(nn.Module):
    """All but the codec. The heads hold the codec's codes only: the tables' further rows are marks that make no sound."""

    starts: Tensor

    def __init__(self, config: CsmConfig) -> None:
        super().__init__()
        self.config = config
        self.texts = nn.Embedding(config.texts, config.backbone.dim)
        self.codes = nn.Embedding(config.books * config.rows, config.backbone.dim)
        self.backbone = Decoder(config.backbone)
        self.head = nn.Linear(config.backbone.dim, config.codes, bias=False)
        self.depth = Depth(config)
        starts = torch.arange(0, config.books * config.rows, config.rows, device="cpu")  # real also where the rest is "meta"
        self.register_buffer("starts", starts, persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        """Of hidden states. Big weights may be of a smaller one."""
        return self.backbone.norm.weight.dtype

    def pack(self) -> None:
        """Make it fast, on a CPU. After its weights are filled."""
        pack_all(self, MOST_ROWS)

    def forward(self, text: Tensor, codes: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Positions of text (ids [n]; -1 where it is a frame) or a frame (`codes` [n, books]) -> hidden states [n, dim]."""
        frames = F.embedding_bag(codes + self.starts, self.codes.weight, mode="sum")
        x = torch.where((text >= 0)[:, None], self.texts(text.clamp(min=0)), frames)
        return self.backbone(x.to(self.dtype), positions, attention)

    def frame(self, hidden: Tensor, sampler: Sampler, recent: Tensor) -> Tensor:
        """Hidden states [n, dim] -> a frame each [n, books]; `recent` [n, any, books] are codes before it (-1: none)."""
        codes = [sampler(self.head(hidden), 0, recent[..., 0])]
        places = torch.arange(self.config.books, device=hidden.device).expand(len(hidden), -1)
        attention = self.depth.begin(len(hidden), hidden)
        x, at = torch.stack((hidden, self.codes(codes[0]).to(self.dtype)), dim=1), places[:, :2]
        for book, head in enumerate(self.depth.heads, 1):
            codes.append(sampler(head(self.depth(x, at, attention)), book, recent[..., book]))
            x, at = self.codes(codes[book] + self.starts[book]).to(self.dtype)[:, None], places[:, book + 1 : book + 2]
        return torch.stack(codes, dim=1)
