"""Text to speech as a model's own repository ships it: a loop over the network, one text at a time, in eager torch.

The cache is one preallocated tensor, the detokenizer is called in the same loop every few frames. Nothing is made slow on
purpose: pointers and codes are Python numbers, and what Lark's rules decide is not computed.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from voxrtc.speechlm.base import CacheShape, Utterance
from voxrtc.speechlm.lark.model import ADVANCE, UNITS, Lark
from voxrtc.speechlm.lark.network import LarkNetwork


class DenseCache:
    """Keys and values of one sequence [layers, 1, heads, positions, head_dim]: `speechlm.layers.attention.Attention`."""

    def __init__(self, shape: CacheShape) -> None:
        size = (shape.layers, 1, shape.kv_heads, shape.positions, shape.head_dim)
        self._keys, self._values = torch.empty(size), torch.empty(size)
        self._last = shape.layers - 1
        self.length = 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """`q`, `k`, `v` [tokens, heads, head_dim] of the next tokens, which are many only in an empty cache."""
        assert len(q) == 1 or self.length == 0, "a prompt comes first and whole"
        end = self.length + len(q)
        for cache, new in ((self._keys, k), (self._values, v)):
            cache[layer, 0, :, self.length : end] = new.transpose(0, 1)
        keys, values = self._keys[layer, :, :, :end], self._values[layer, :, :, :end]
        seen = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys, values, is_causal=len(q) > 1, enable_gqa=q.shape[1] != keys.shape[1]
        )
        if layer == self._last:
            self.length = end
        return seen[0].transpose(0, 1)


@torch.inference_mode()
def frames(lark: Lark, piece: str) -> Iterator[tuple[Tensor, bool]]:
    """The frames [codebooks] of a piece, greedily, each with whether it is the last."""
    network, prompt = lark.network, lark.preprocess(Utterance(piece))
    ids, cache = torch.tensor(prompt.data.ids), DenseCache(lark.cache)
    windows = network.windows(ids[None], torch.arange(len(ids))[None])[0]
    codes, pointer, elapsed = network.start_codes(), 0, 0
    x = torch.cat([network.prompt_inputs(ids), _input(network, codes, windows[pointer], elapsed)])
    for left in reversed(range(prompt.max_frames)):
        positions = torch.arange(cache.length, cache.length + len(x))
        codes = _sample(network, network.trunk(x, positions, cache)[-1:], codes, elapsed)
        moved = bool(codes[ADVANCE])
        pointer, elapsed = pointer + moved, 0 if moved else elapsed + 1
        last = pointer >= len(ids) or not left
        yield codes, last
        if last:
            return
        x = _input(network, codes, windows[pointer], elapsed)


def speak(lark: Lark, text: str, chunk: int, seed: int = 0) -> Iterator[Tensor]:
    """The sound of a text, in chunks of `chunk` frames; the first also fills the detokenizer's lookahead."""
    detokenizer, made = lark.detokenizer, 0
    for piece in lark.split(text):
        state, pending, due = detokenizer.new_state(seed + made), [], detokenizer.lookahead + chunk
        for frame, last in frames(lark, piece):
            pending.append(frame)
            made += 1
            if last or len(pending) == due:
                yield detokenizer.decode([torch.stack(pending)], [state], [last])[0]
                pending, due = [], chunk


def _input(network: LarkNetwork, codes: Tensor, window: Tensor, elapsed: int) -> Tensor:
    return network.frame_inputs(codes[None], window[None], torch.tensor([elapsed]))


def _sample(network: LarkNetwork, z: Tensor, before: Tensor, elapsed: int) -> Tensor:
    """The next frame [codebooks] from hidden state `z` [1, dim], by the rules of `Lark.sample`."""
    codes: list[Tensor] = []
    last = len(network.config.codebook_sizes) - 1
    for book in range(last + 1):
        if book == ADVANCE and elapsed >= network.config.max_elapsed:
            codes.append(torch.ones(1, dtype=torch.long))
        elif UNITS.start <= book < UNITS.stop and elapsed > 0:
            codes.append(before[book : book + 1])
        else:
            codes.append(network.logits(z, book).argmax(-1))
        if book < last:
            z = network.choose(z, book, codes[book])
    return torch.cat(codes)
