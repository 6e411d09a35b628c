"""Packed linear layers against torch's own."""

from __future__ import annotations

import weakref
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from voxrtc.speechlm.layers.linear import SIZES, PackedLinear, pack

LAYER = nn.Linear(24, 40)
PACKED = PackedLinear(LAYER)
HALF = PackedLinear(deepcopy(LAYER).bfloat16())

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


@settings(deadline=None)
@given(st.integers(0, 300) | st.sampled_from([SIZES[-1] - 1, SIZES[-1], SIZES[-1] + 1, 2 * SIZES[-1] + 7]))
def test_any_number_of_rows_gives_what_torch_gives(rows: int) -> None:
    x = torch.randn(rows, 24)
    assert torch.allclose(PACKED(x), LAYER(x), atol=1e-5)


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 199))
def test_a_row_is_the_same_to_the_bit_in_any_company(rows: int, row: int) -> None:
    x = torch.randn(200, 24)
    row %= rows
    assert torch.equal(PACKED(x[:rows])[row], PACKED(x[row : row + 1])[0])


def test_rows_may_lie_in_a_batch() -> None:
    x = torch.randn(3, 7, 24)
    assert torch.equal(PACKED(x), PACKED(x.flatten(0, 1)).view(3, 7, 40))


@pytest.mark.parametrize("width", [1024, 1280, 2048, 8192])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_of_a_wide_layer_is_so_too(width: int, dtype: torch.dtype) -> None:
    """A single one of them is summed up differently by some libraries."""
    wide, x = PackedLinear(nn.Linear(width, 64).to(dtype)), torch.randn(64, width)
    whole = wide(x)
    for rows in (*range(1, 14), 33):
        assert torch.equal(wide(x[:rows]), whole[:rows])


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 199))
def test_weights_in_bfloat16_take_and_give_float32(rows: int, row: int) -> None:
    x = torch.randn(rows, 24)
    y, row = HALF(x), row % rows
    assert y.dtype == torch.float32
    assert torch.allclose(y, LAYER(x), atol=0.05) and not torch.equal(y, PACKED(x))
    assert torch.equal(HALF(x[row : row + 1])[0], y[row])


def test_packing_reaches_every_layer_and_leaves_other_modules_alone() -> None:
    inner = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8))
    module = nn.ModuleDict({"a": nn.Linear(8, 4), "b": inner})
    x = torch.randn(5, 8)
    before = module["a"](module["b"](x))
    pack(module, 8)
    assert isinstance(module["a"], PackedLinear) and isinstance(inner[0], PackedLinear) and isinstance(inner[1], nn.LayerNorm)
    assert torch.allclose(module["a"](module["b"](x)), before, atol=1e-5)


def test_a_big_model_is_never_in_memory_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a block is packed, those before it are gone."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)) for _ in range(3)))
    plain = [weakref.ref(part) for part in model.modules() if type(part) is nn.Linear]
    there, packed = [], PackedLinear.__init__

    def counting(self: PackedLinear, linear: nn.Linear) -> None:
        there.append(sum(part() is not None for part in plain))
        packed(self, linear)

    monkeypatch.setattr(PackedLinear, "__init__", counting)
    pack(model, 8)
    assert there == [6, 6, 4, 4, 2, 2]
