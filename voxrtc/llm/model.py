"""A chat model on a CPU: its network, its cache of keys and values, and how it chooses the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from voxrtc.engine.attention import Layout, choose
from voxrtc.engine.kv_cache import OutOfPages, PagedCache
from voxrtc.engine.sampling import SamplingTable
from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.base import CacheShape
from voxrtc.speechlm.causal_lm import CausalLM
from voxrtc.speechlm.weights import read_tokenizer

CONTEXT = 2048  # tokens of one conversation, more than any prompt and completion take
SLOTS = 16  # conversations whose keys and values are kept
PAGES, PAGE_SIZE = 48, 64  # for all of them: 3072 tokens, 140 MB of SmolLM2-135M's
SAMPLING = Sampling(temperature=0.3, top_k=40, top_p=0.9, min_p=0.0, repetition_penalty=1.12)  # by trial


@dataclass(frozen=True)
class Part:
    """One conversation's share of a step: tokens to compute from position `start` on, and whether one comes after them.

    `recent` are tokens that it had better not repeat.
    """

    slot: int
    start: int
    ids: Sequence[int]
    samples: bool
    recent: Sequence[int] = ()


class ChatModel:
    """Computes steps for several conversations at once. One thread at a time."""

    def __init__(self, network: CausalLM, tokenizer: Tokenizer) -> None:
        self.network, self.tokenizer = network, tokenizer
        shape = network.decoder.config
        self._cache = PagedCache(CacheShape.of(shape), SLOTS, PAGES, PAGE_SIZE)
        self._attention = choose(self._cache, shape.heads)
        self._sampling = SamplingTable(SLOTS)

    @classmethod
    def load(cls, folder: Path) -> ChatModel:
        """Read a folder that transformers saved. In bfloat16 where the processor multiplies that. Raises `WeightsError`."""
        fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        tokenizer = read_tokenizer(folder / "tokenizer.json")
        network = CausalLM.load(folder, CONTEXT, torch.bfloat16 if fast else torch.float32)
        network.pack()
        return cls(network, tokenizer)

    def make_room(self, slot: int, positions: int) -> bool:
        """Get `slot` pages for so many positions; whether there were enough."""
        try:
            self._cache.grow(slot, positions)
        except OutOfPages:
            return False
        return True

    def free(self, slot: int) -> None:
        """Forget what is in `slot`."""
        self._cache.free(slot, scrub=True)

    def begin(self, slot: int, seed: int) -> None:
        """A new completion is written in `slot`."""
        self._sampling.set(slot, Sampling(), SAMPLING, seed, 0)

    def copy(self, donor: int, slot: int, positions: int) -> None:
        """Put the first positions of `donor` into `slot`, which has the pages for them."""
        pages = self._cache.table[donor, : self._cache.pages_for(positions)]
        keys, values = (
            cache[:, pages].transpose(2, 3).flatten(1, 2)[:, :positions] for cache in (self._cache.keys, self._cache.values)
        )
        self._cache.fill(slot, keys, values)

    @torch.inference_mode()
    def step(self, parts: Sequence[Part]) -> list[int | None]:
        """The next token of each part that samples."""
        counts = tuple(len(part.ids) for part in parts)
        layout = Layout([part.slot for part in parts], [part.start for part in parts], counts)
        ids = torch.tensor([id for part in parts for id in part.ids])
        hidden = self.network(ids, torch.from_numpy(layout.positions), self._attention.plan(layout))
        asked = [i for i, part in enumerate(parts) if part.samples]
        if not asked:
            return [None] * len(parts)
        scores = self.network.head(hidden[torch.from_numpy(layout.ends[asked])])
        sampler = self._sampling.sampler([parts[i].slot for i in asked])
        chosen = iter(sampler(scores, 0, _padded([parts[i].recent for i in asked])).tolist())
        sampler.advance()
        return [next(chosen) if part.samples else None for part in parts]


def _padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Rows of tokens as one tensor, -1 where there is none."""
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])
