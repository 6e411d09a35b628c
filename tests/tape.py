"""CUDA graphs without a GPU: a tape notes every operation on a pretended device (`tests.pretend`), and plays them again into
the very same tensors. What Python decided while it was recorded stays decided, as in a graph: so a step that depends on
anything but the numbers in its tensors says something else when it is played.

Attention is one operation. Its numbers must lie where they lay; it may read more pages, of which only the address is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from tests.engine import flashinfer_reference
from tests.pretend import COPIES, WAITS, Masked
from voxrtc.engine.attention import Layout
from voxrtc.engine.flashinfer_attention import FlashInferAttention
from voxrtc.engine.graphs import Recording
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.speechlm.layers.attention import Attention

PLACES = ("indptr", "last_page_len", "stream", "positions", "indices")


def held(tensor: Tensor) -> Tensor:
    return tensor.held if isinstance(tensor, Masked) else tensor


class Tape(TorchDispatchMode):
    """`worker.Worker`'s recorder, and with `backend` its attention. `played` counts. `impossible`: what was recorded although a
    CUDA graph cannot do it, which is to wait for the device, or to bring it something from the host."""

    def __init__(self) -> None:
        super().__init__()
        self.played, self.impossible = 0, list[str]()
        self.attention: Any = None  # of the present step
        self._log: list[Callable[[], Any]] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._log is not None:
            self._note(func._schema.name, args, result)
            self._log.append(lambda: keep(result, func(*args, **(kwargs or {}))))
        return result

    def _note(self, name: str, args: Any, result: Any) -> None:
        given = [x for x in tree_flatten(args)[0] if isinstance(x, Tensor)]
        there = [x for x in given if isinstance(x, Masked)]
        waits = name in WAITS or (name == "aten::index" and any(x.dtype == torch.bool for x in there[1:]))
        copies = name in COPIES and len({isinstance(x, Masked) for x in (*given, result)}) > 1
        if copies or (there and waits):
            self.impossible.append(name)

    def record(self, work: Callable[[], Any]) -> Recording:
        self._log = log = []
        with self:
            result = work()
        self._log = None

        def play() -> None:
            self.played += 1
            for operation in log:
                operation()

        return Recording(play, result, done=True)

    def backend(self, cache: PagedCache, heads: int) -> FlashInferAttention:
        tape = self

        class Backend(FlashInferAttention):
            def plan(self, layout: Layout) -> Attention:
                tape.attention = super().plan(layout)
                return Noted(tape, tape.attention)

        return Backend(cache, heads, flashinfer_reference)

    def attend(self, recorded: Any, layer: int, *qkv: Tensor) -> Tensor:
        if self._log is None:
            return recorded.attend(layer, *qkv)
        log, self._log = self._log, None
        seen = recorded.attend(layer, *qkv)
        self._log = log

        def again() -> None:
            for place in PLACES:
                then, now = (held(vars(attention)[place]) for attention in (recorded, self.attention))
                assert then.data_ptr() == now.data_ptr(), f"{place} lies elsewhere"
            keep(seen, self.attention.attend(layer, *qkv))

        log.append(again)
        return seen


@dataclass(frozen=True)
class Noted:
    """A step's attention, as one operation."""

    tape: Tape
    attention: Any

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.tape.attend(self.attention, layer, q, k, v)


def keep(result: Any, anew: Any) -> None:
    """Put what an operation gives now where it gave it then."""
    for old, new in zip(tree_flatten(result)[0], tree_flatten(anew)[0], strict=True):
        if isinstance(old, Tensor) and held(old).data_ptr() != held(new).data_ptr():
            with torch.utils._python_dispatch._disable_current_modes():
                held(old).copy_(held(new))
