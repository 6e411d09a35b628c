"""Percentiles of late: of the last minute, bounded, and of nothing."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from voxrtc.recent import MOST, WINDOW, Latency, Recent, quantile


def test_quantiles_are_values_that_were_seen() -> None:
    values = [float(i) for i in range(1, 101)]
    assert [quantile(values, q) for q in (0.0, 0.5, 0.9, 0.99, 1.0)] == [1, 50, 90, 99, 100]
    assert quantile([7.0], 0.9) == 7.0 and quantile([], 0.9) == math.inf


def test_there_are_no_percentiles_of_none() -> None:
    assert Recent().latency(0.0) == Latency(0, None, None)


def test_what_is_older_than_the_window_does_not_count() -> None:
    recent = Recent()
    recent.observe(0.0, 9.0)
    recent.observe(10.0, 0.1)
    assert recent.latency(WINDOW) == Latency(2, 100.0, 9000.0)
    assert recent.latency(WINDOW + 5) == Latency(1, 100.0, 100.0)


def test_it_keeps_the_latest_and_no_more() -> None:
    recent = Recent()
    for number in range(3 * MOST):
        recent.observe(number / 1000, number / 1000)
    latency = recent.latency(3 * MOST / 1000)
    assert latency.count == MOST
    assert latency.p50_ms == 2.5 * MOST - 1


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_so_many_took_no_longer(times: list[float]) -> None:
    recent = Recent()
    for each in times:
        recent.observe(0.0, each)
    latency = recent.latency(0.0)
    for share, percentile in ((0.5, latency.p50_ms), (0.95, latency.p95_ms)):
        assert percentile is not None
        assert sum(1000 * each <= percentile + 0.1 for each in times) >= share * len(times)
        assert sum(1000 * each < percentile - 0.1 for each in times) <= share * len(times)
