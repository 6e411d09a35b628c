"""The bench of goodput runs over real sockets and says what it should; its figures are for a quiet machine to tell."""

from __future__ import annotations

import json

import pytest

from voxrtc.bench import goodput


@pytest.mark.slow
def test_our_engine_and_a_baseline_at_a_fixed_rate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.bench.workload.FEWEST", 3)
    monkeypatch.setattr("voxrtc.bench.workload.length", lambda rng: rng.uniform(1, 2))  # seconds of speech
    monkeypatch.setattr("voxrtc.bench.systems.WARM_UP", ("Yes.",))
    goodput.main(["--rate", "3", "--seconds", "1", "--policy", "playout", "--baseline", "one_at_a_time", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"policies", "baselines", "ratios"} and report["ratios"] == {}
    for run in (report["policies"]["playout"], report["baselines"]["one_at_a_time"]):
        assert (run["requests"], run["refused"], run["errors"], run["unserved"]) == (3, 0, 0, 0)
        assert 0 < run["p50_ttfa"] <= run["p90_ttfa"] <= run["p99_ttfa"]
        assert 0 <= run["viable_streams"] <= 1 and run["audio_per_second"] > 0
        assert run["cpu_per_audio_second"] > 0 and run["rss_mb"] > 100
        assert run["stall_250ms"] <= run["stall_50ms"] <= 1 - run["viable_streams"] + 1e-9


def test_ratios_are_to_each_baseline_and_the_best_rival() -> None:
    found = goodput.ratios({"playout": 6.0, "fifo": 4.0, "two_phase": 3.0}, {"one_at_a_time": 0.5, "batch_1": 0.0})
    assert found == {"playout / one_at_a_time": 12.0, "playout / best of fifo and two_phase": 1.5}
    assert goodput.ratios({"fifo": 4.0}, {"batch_1": 1.0}) == {}
