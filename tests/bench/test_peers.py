"""The search for how many listeners there may be."""

from __future__ import annotations

import pytest

from voxrtc.bench import peers


@pytest.mark.parametrize("limit", [1, 7, 16, 40, 90])
def test_the_most_that_are_in_time(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "in_time", lambda kind, count, seconds, core: count <= limit)
    assert 0.85 * limit <= peers.most("voxrtc", 1.0, 0) <= limit
