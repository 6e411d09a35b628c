"""Sampling against a plain, one-row reference."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.sampling import SamplingTable, choose, descending, normal, penalise, uniform
from voxrtc.messages.engine import Sampling

DEFAULTS = Sampling(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0)


def reference(scores: list[float], temperature: float, top_k: int, top_p: float, min_p: float, number: float) -> int:
    """One row in plain Python: sort, keep, draw."""
    if temperature == 0:
        return max(range(len(scores)), key=lambda i: scores[i])
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    top = scores[order[0]] / temperature
    weights = [math.exp(scores[i] / temperature - top) for i in order]
    p = [w / sum(weights) for w in weights]
    keep = [i for i in range(len(p)) if i == 0 or ((top_k == 0 or i < top_k) and sum(p[:i]) < top_p and p[i] >= min_p * p[0])]
    left = number * sum(p[i] for i in keep)
    for i in keep:
        left -= p[i]
        if left < 0:
            return order[i]
    return order[keep[-1]]


@given(st.data())
def test_batched_choice_equals_the_reference(data: st.DataObject) -> None:
    n, size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10_000)))
    logits = torch.randn(n, size, generator=generator) * 2
    temperature = torch.tensor(data.draw(st.lists(st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.8]), min_size=n, max_size=n)))
    top_k = torch.tensor(data.draw(st.lists(st.integers(0, size), min_size=n, max_size=n)))
    top_p = torch.tensor(data.draw(st.lists(st.sampled_from([0.1, 0.5, 0.8, 1.0]), min_size=n, max_size=n)))
    min_p = torch.tensor(data.draw(st.lists(st.sampled_from([0.0, 0.05, 0.5, 1.0]), min_size=n, max_size=n)))
    number = torch.rand(n, generator=generator)
    chosen = choose(logits, temperature, top_k, top_p, min_p, number)
    rows = zip(logits, temperature, top_k, top_p, min_p, number, strict=True)
    assert chosen.tolist() == [reference(row.tolist(), *(x.item() for x in rest)) for row, *rest in rows]


def test_draws_follow_the_distribution() -> None:
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    n = 20_000
    one = torch.ones(n)
    number = uniform(torch.full((n,), 5), torch.arange(n), 0)
    chosen = choose(p.log().expand(n, -1), one, one.long() * 0, one, one * 0, number)
    assert torch.allclose(torch.bincount(chosen, minlength=4) / n, p, atol=0.015)


def test_random_numbers_are_uniform_and_unrelated() -> None:
    steps = torch.arange(20_000)
    a, b, c = uniform(torch.tensor(1), steps, 0), uniform(torch.tensor(1), steps, 1), uniform(torch.tensor(2), steps, 0)
    for x in (a, b, c):
        assert 0 <= x.min() and x.max() < 1
        assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.01
    for x, y in ((a, b), (a, c), (b, c), (a[1:], a[:-1])):
        assert abs(torch.corrcoef(torch.stack([x, y]))[0, 1]) < 0.03


def test_noise_is_normal_and_unrelated() -> None:
    noise = normal(torch.full((5000, 1), 3), torch.arange(5000)[:, None], 8)
    assert noise.shape == (5000, 8) and noise.isfinite().all()
    assert noise.mean(0).abs().max() < 0.06 and (noise.std(0) - 1).abs().max() < 0.04
    assert abs((noise.abs() < 1).float().mean() - 0.6827) < 0.01 and abs((noise.abs() < 2).float().mean() - 0.9545) < 0.005
    assert (torch.corrcoef(noise.T) - torch.eye(8)).abs().max() < 0.06
    assert abs(torch.corrcoef(torch.stack([noise[1:, 0], noise[:-1, 0]]))[0, 1]) < 0.05


def test_noise_belongs_to_a_stream() -> None:
    table = SamplingTable(3)
    for slot, temperature in enumerate((0.0, 0.25, 1.0)):
        table.set(slot, Sampling(temperature=temperature), DEFAULTS, seed=9, step=4)
    still, half, whole = table.sampler([0, 1, 2]).normal(5)
    assert (still == 0).all() and torch.equal(whole, table.sampler([2]).normal(5)[0])
    assert torch.allclose(half, whole / 2), "the variance is the temperature"
    assert torch.equal(table.sampler([0]).normal(5), torch.zeros(1, 5))
    table.sampler([2]).advance()
    assert not torch.allclose(table.sampler([2]).normal(5)[0], whole)


def test_a_number_of_one_takes_the_last_kept_code() -> None:
    one = torch.ones(1)
    assert choose(torch.zeros(1, 5), one, torch.tensor([3]), one, 0 * one, torch.tensor([1 - 2**-24])).item() == 2


def test_penalty_looks_at_the_streams_own_history_only() -> None:
    logits = torch.tensor([[2.0, 1.0, -1.0], [2.0, 1.0, -1.0]])
    recent = torch.tensor([[0, 2, -1], [-1, -1, -1]])
    out = penalise(logits, recent, torch.tensor([2.0, 2.0]))
    assert out.tolist() == [[1.0, 1.0, -2.0], [2.0, 1.0, -1.0]]


def test_settings_belong_to_a_slot() -> None:
    table = SamplingTable(2)
    table.set(0, Sampling(temperature=1.0, top_k=1), DEFAULTS, seed=1, step=0)
    table.set(1, Sampling(), DEFAULTS, seed=2, step=0)
    logits = torch.tensor([[0.0, 3.0], [3.0, 0.0]])
    assert table.sampler([0, 1])(logits, 0).tolist() == [1, 0]
    table.sampler([1]).advance()
    assert table.step.tolist() == [0, 1]


@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, -(2**63)])
def test_any_seed_will_do(seed: int) -> None:
    table = SamplingTable(1)
    table.set(0, Sampling(temperature=1.0), DEFAULTS, seed=seed, step=0)
    assert 0 <= table.sampler([0])(torch.zeros(1, 9), 0).item() < 9


@given(rows=st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=7, max_size=7), min_size=1, max_size=4))
def test_sorting_is_torchs_stable_one(rows: list[list[float]]) -> None:
    scores = torch.tensor([row + row[::-1] + [0.0, -0.0, torch.inf, -torch.inf] for row in rows])
    ours, theirs = descending(scores), scores.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
