"""How fast something may come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.pace import Pace


def test_what_comes_at_once_is_early_and_waiting_saves_nothing_up() -> None:
    pace = Pace(4.0)
    assert pace.ahead(100.0) == 0
    pace.count(2, 100.0)
    assert pace.ahead(100.0) == 0.5 and pace.ahead(100.0, 2) == 1.0
    assert pace.ahead(100.25) == 0.25 and pace.ahead(200.0) == 0
    pace.count(2, 200.0)
    assert pace.ahead(200.0) == 0.5


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 100)), max_size=30))
def test_who_waits_until_nothing_is_early_sends_no_faster_than_the_rate(sent: list[tuple[float, float]]) -> None:
    pace, now, last, total = Pace(8.0), 0.0, 0.0, 0.0
    for pause, amount in sent:
        now += pause + pace.ahead(now + pause)
        assert total <= 8.0 * now + 1e-6
        pace.count(amount, now)
        last, total = amount, total + amount
    assert pace.ahead(now) == pytest.approx(last / 8.0)
