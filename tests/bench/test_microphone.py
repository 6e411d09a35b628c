"""The bench of the microphone's path runs and says what it should; its figures are for a quiet machine to tell."""

from __future__ import annotations

import pytest

from voxrtc.bench.beside import KINDS
from voxrtc.bench.microphone import Result, run, table


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_talker(kind: str) -> None:
    result = run(kind, peers=1, seconds=1)
    assert 0 < result.delay_ms < 500
    assert result.cpu_ms_per_peer_second < 1000


def test_the_table_has_medians_spread_and_ratio() -> None:
    ours, stock = ([Result(scale * cpu, 40) for cpu in (10, 12, 11)] for scale in (1, 2))
    row = table({"voxrtc": ours, "aiortc": stock}).splitlines()[1]
    assert row.split() == ["CPU", "ms", "per", "peer-second", "11.00", "(10.00-12.00)", "22.00", "(20.00-24.00)", "0.50"]
