"""Learned costs find the truth, follow it when it moves, and shrug off outliers."""

from __future__ import annotations

import random

import pytest

from voxrtc.engine.costs import Costs, LinearCost


def learn(cost: LinearCost, truth: tuple[float, float, float], steps: int, seed: int = 0, outliers: float = 0.0) -> None:
    rng = random.Random(seed)
    for _ in range(steps):
        streams, tokens = rng.randint(1, 32), rng.choice([0, 0, 0, rng.randint(20, 200)])
        seconds = (truth[0] + truth[1] * streams + truth[2] * tokens) * rng.uniform(0.95, 1.05)
        cost.observe(seconds * (20 if rng.random() < outliers else 1), streams, tokens)


@pytest.mark.parametrize("truth", [(0.004, 0.0005, 0.00005), (0.0065, 0.00009, 0.0001), (0.03, 0.01, 0.001)])
def test_it_finds_the_truth(truth: tuple[float, float, float]) -> None:
    costs = Costs()
    learn(costs.step, truth, 300)
    for streams, tokens in ((1, 0), (8, 0), (16, 100), (32, 0)):
        assert costs.step.predict(streams, tokens) == pytest.approx(truth[0] + truth[1] * streams + truth[2] * tokens, rel=0.08)


def test_it_follows_a_machine_that_slows_down() -> None:
    costs = Costs()
    learn(costs.step, (0.004, 0.0005, 0.00005), 300)
    learn(costs.step, (0.008, 0.001, 0.0001), 2000, seed=1)
    assert costs.step.predict(16, 0) == pytest.approx(0.024, rel=0.1)


def test_outliers_do_not_lead() -> None:
    costs = Costs()
    learn(costs.step, (0.004, 0.0005, 0.00005), 600, outliers=0.03)
    assert costs.step.predict(16, 0) == pytest.approx(0.012, rel=0.25)


def test_work_at_one_size_only_keeps_the_model_sane() -> None:
    costs = Costs()
    for _ in range(20_000):
        costs.step.observe(0.005, 1, 0)
    assert costs.step.predict(1, 0) == pytest.approx(0.005, rel=0.02)
    learn(costs.step, (0.004, 0.0005, 0.00005), 200)
    assert costs.step.predict(16, 0) == pytest.approx(0.012, rel=0.1)
    assert all(0 <= weight < 1 for weight in costs.step.weights)


def test_a_weight_that_was_nothing_comes_back() -> None:
    """A start without a constant part must not be taken for the nature of the machine."""
    costs = Costs()
    costs.step.weights[0] = 0.0
    learn(costs.step, (0.004, 0.0005, 0.0002), 200)
    for streams, tokens in ((1, 0), (32, 0), (8, 150)):
        assert costs.step.predict(streams, tokens) == pytest.approx(0.004 + 0.0005 * streams + 0.0002 * tokens, rel=0.15)
