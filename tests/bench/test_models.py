"""The measurement of models, on a tiny one."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrtc.bench.models import HEAD, Costs, Ours
from voxrtc.speechlm.pocket.model import Pocket

FOLDER = Path(__file__).parents[1] / "golden" / "pocket" / "languages" / "plain"


def test_steps_and_calls_are_counted() -> None:
    run = Ours("tiny", Pocket.load(FOLDER), streams=3)
    for _ in range(2):
        run.measure(5)
    assert len(run.costs.step) == len(run.costs.codec) == 10
    assert len(run.costs.row(None)) == len(run.costs.row(run.costs)) == len(HEAD)
    assert run.costs.row(run.costs).endswith("1.00 x")


def test_real_time_is_sound_over_work() -> None:
    costs = Costs("", streams=4, frame_rate=10.0, chunk=2, step=[0.1, 0.1], codec=[0.2, 0.2])
    assert costs.real_time == pytest.approx(2.0)  # 4 streams x 0.1 s of sound, for 0.1 s of model and half a call


def test_layers_that_are_not_there_are_counted() -> None:
    run = Ours("tiny", Pocket.load(FOLDER), streams=1, share=3)
    run.measure(1)
    assert run.costs.step[-1] > 3 * run.forward > 0
