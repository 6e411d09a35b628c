"""The load: the same again for a seed, and as long as it says."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from itertools import pairwise

import pytest

from voxrtc.bench.workload import planned, requests
from voxrtc.crowd.texts import CHARACTERS, text_of


def test_a_seed_gives_the_same_texts_at_all_rates_and_arrivals_that_scale() -> None:
    slow, fast = requests(1.0, 50, seed=3), requests(4.0, 60, seed=3)
    assert slow == requests(1.0, 50, seed=3) != requests(1.0, 50, seed=4)
    assert [request.text for request in slow] == [request.text for request in fast[:50]]
    assert [request.at for request in slow] == pytest.approx([4 * request.at for request in fast[:50]])


def test_arrivals_are_poisson_and_half_of_the_utterances_short() -> None:
    come = requests(2.0, 4000, seed=0)
    gaps = [b.at - a.at for a, b in pairwise(come)]
    assert statistics.mean(gaps) == pytest.approx(0.5, rel=0.05) and statistics.stdev(gaps) == pytest.approx(0.5, rel=0.1)
    seconds = [len(request.text) / CHARACTERS for request in come]
    assert min(seconds) > 0.6 and max(seconds) < 15.6
    assert statistics.mean(seconds) == pytest.approx((2.5 + 8) / 2, rel=0.03)
    assert sum(length < 4 for length in seconds) / 4000 == pytest.approx(0.5 + 0.5 * 3 / 14, abs=0.05)


@pytest.mark.parametrize("seconds", [1.0, 2.0, 5.0, 10.0, 15.0])
def test_a_text_has_the_length_that_is_wanted(seconds: float) -> None:
    rng = random.Random(0)
    assert all(abs(len(text_of(seconds, rng)) - CHARACTERS * seconds) <= 6 for _ in range(100))


@pytest.mark.parametrize(("rate", "count"), [(5.0, 200), (0.6, 24), (0.1, 12), (0.001, 1)])
def test_a_run_has_enough_requests_but_ends(rate: float, count: int) -> None:
    assert planned(rate, 40.0) == count


@pytest.mark.parametrize("name", ["workload", "goodput", "soak"])
def test_the_load_does_without_torch(name: str) -> None:
    code = f"import sys, voxrtc.bench.{name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
