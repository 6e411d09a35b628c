"""The bench of the media process runs and says what it should; its figures are for a quiet machine to tell."""

from __future__ import annotations

import json

import pytest

from voxrtc.bench import rtc
from voxrtc.bench.rtc import Result


@pytest.mark.slow
def test_one_listener(capsys: pytest.CaptureFixture[str]) -> None:
    rtc.main(["--peers", "1", "--seconds", "1", "--runs", "1", "--json"])
    report = json.loads(capsys.readouterr().out)
    for kind in rtc.KINDS:
        (result,) = report[kind]
        assert 0 < result["cpu_ms_per_peer_second"] < 1000
        assert result["delivered"] == pytest.approx(1, abs=0.2)
        assert 15 < result["p99_gap_ms"] < 1000


def test_the_table_has_medians_spread_and_ratio() -> None:
    ours = [Result(cpu, 1, 21, 30) for cpu in (10, 12, 11)]
    stock = [Result(cpu, 1, 22, 60) for cpu in (22, 20, 24)]
    row = rtc.table({"voxrtc": ours, "aiortc": stock}).splitlines()[1]
    assert row.split() == ["CPU", "ms", "per", "peer-second", "11.00", "(10.00-12.00)", "22.00", "(20.00-24.00)", "0.50"]
