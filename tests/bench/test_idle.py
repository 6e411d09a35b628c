"""The bench of idle listeners connects them, and finds a cost."""

from __future__ import annotations

import pytest

from voxrtc.bench import idle


@pytest.mark.slow
@pytest.mark.parametrize("microphone", [False, True])
def test_one_listener(microphone: bool) -> None:
    assert 0 < idle.run(peers=1, seconds=0.5, microphone=microphone) < 1
