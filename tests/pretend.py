"""A device that is not there: tensors on it are the host's behind a mask, and mixing the two is the error it would be on a GPU.

torch lets a device be written in Python. Ours computes on the host, so what a model says can be compared; but it refuses
operations on tensors of both devices, has no `numpy()`, and keeps a list of the times when the host had to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

COPIES = ("aten::_to_copy", "aten::copy_", "aten::to")  # between devices, in the open
PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device)
HARMLESS = ("aten::_has_compatible_shallow_copy_type",)
WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::is_nonzero")


class Backend(backend_registration._DummyBackendModule):
    """What torch asks a device for in passing. It has no random numbers of its own."""

    def get_rng_state(self, device: object = None) -> Tensor:
        return torch.empty(0)

    def set_rng_state(self, state: Tensor, device: object = None) -> None: ...


@cache
def device() -> torch.device:
    """It is registered when it is first asked for."""
    backend_registration._setup_privateuseone_for_python_backend("pretend", Backend())
    return torch.device("pretend:0")


class Masked(Tensor):
    """A tensor on the device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Masked:
        with torch.inference_mode(False):  # else torch would not take it for a view of what was made outside that mode
            masked = Tensor._make_wrapper_subclass(
                cls, held.size(), held.stride(), held.storage_offset(), dtype=held.dtype, device=device(), requires_grad=False
            )
        masked.held = held
        return masked

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Masked({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {}, waits=[])


class Pretend(TorchDispatchMode):
    """While it is on, the device is there. `waits`: what made the host wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {}, self.waits)


def run(func: Any, args: Any, kwargs: dict[str, Any], waits: list[str]) -> Any:
    """An operation on the tensors behind the masks; a result is masked if an argument was, or the device was asked for."""
    tensors: list[Tensor] = []
    mapped(lambda x: tensors.append(x) or x, (args, kwargs))
    masked = [x for x in tensors if isinstance(x, Masked)]
    there, name = kwargs.get("device"), func._schema.name
    if masked:
        others = [x for x in tensors if not isinstance(x, Masked) and x.dim()]
        assert not others or name in (*COPIES, *HARMLESS), f"{name} mixes tensors of the host and of the device"
        if name in WAITS or (name == "aten::index" and any(x.dtype == torch.bool for x in masked[1:])):
            waits.append(name)
    mask = bool(masked) if there is None else torch.device(there).type == "pretend"
    if name == "aten::copy_":
        mask = isinstance(args[0], Masked)
    if name in COPIES and masked and not mask and not kwargs.get("non_blocking"):
        waits.append(name)
    if there is not None:
        kwargs = {**kwargs, "device": "cpu"}
    behind = {id(x.held): x for x in masked}
    args, kwargs = mapped(lambda x: x.held if isinstance(x, Masked) else x, (args, kwargs))
    result = func(*args, **kwargs)
    return mapped(lambda x: behind[id(x)] if id(x) in behind else Masked(x), result) if mask else result


def mapped(change: Callable[[Tensor], Any], x: Any) -> Any:
    """Arguments with their tensors changed. torch's own `tree_map` takes longer than what a tiny model computes, and asking
    whether a number is a tensor does, too."""
    if type(x) in PLAIN:
        return x
    if isinstance(x, tuple | list):
        return type(x)([mapped(change, each) for each in x])
    if isinstance(x, dict):
        return {name: mapped(change, each) for name, each in x.items()}
    return change(x) if isinstance(x, Tensor) else x


@contextmanager
def pretended() -> Iterator[Pretend]:
    """The device is there."""
    device()
    with Pretend() as mode:
        yield mode
