"""How many pages the cache gets, with memory of a few kilobytes."""

from __future__ import annotations

import pytest
import torch

from tests.engine.toy import Toy
from voxrtc.engine import memory
from voxrtc.engine.memory import GB, TooLittleMemory, half_of_the_longest, page_bytes, pages_for

PAGE = 2 * 2 * 2 * 8 * 16 * 4  # keys and values, layers, heads, their width, positions, bytes: 4 kB
LONGEST = 8  # pages of 16 positions


def test_a_page_is_keys_and_values_of_all_layers() -> None:
    assert page_bytes(Toy.cache, 16, torch.float32) == PAGE == 2 * page_bytes(Toy.cache, 16, torch.bfloat16)


def test_what_was_asked_for_is_filled_with_pages_but_not_with_more_than_all_can_use() -> None:
    assert pages_for(Toy(), 4, 16, 20.5 * PAGE / GB) == 20
    assert pages_for(Toy(), 4, 16, 1.0) == 4 * LONGEST


def test_a_cpu_by_itself_takes_half_of_what_all_could_use_and_at_most_a_share_of_what_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1 * GB)
    assert pages_for(Toy(), 4, 16, 0) == 4 * LONGEST // 2 == half_of_the_longest(Toy.cache, 4, 16)
    assert pages_for(Toy(), 1, 16, 0) == LONGEST, "one stream has all it may need"
    monkeypatch.setattr(memory, "free_memory", lambda: 24 * PAGE)
    assert pages_for(Toy(), 4, 16, 0) == 12


def test_a_gpu_by_itself_takes_what_all_can_use_or_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    model, free = Toy(), {"bytes": 1 * GB}
    monkeypatch.setattr(model, "device", torch.device("cuda", 1), raising=False)
    monkeypatch.setattr(memory, "_free_on_gpu", lambda device: free["bytes"] if device.index == 1 else 0)
    assert pages_for(model, 4, 16, 0) == 4 * LONGEST
    free["bytes"] = 20 * PAGE
    assert pages_for(model, 4, 16, 0) == 14


@pytest.mark.parametrize(("gigabytes", "hint"), [(7 * PAGE / GB, "VOXRTC_KV_MEMORY"), (0, "smaller model")])
def test_where_not_one_stream_fits_it_says_so(gigabytes: float, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 15 * PAGE)
    with pytest.raises(TooLittleMemory, match=hint):
        pages_for(Toy(), 4, 16, gigabytes)
