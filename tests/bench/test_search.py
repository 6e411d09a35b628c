"""The search for goodput, with runs that are only a comparison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.bench.search import Search


def find(search: Search, knee: float) -> int:
    """Number of runs."""
    for runs in range(100):
        if search.done:
            return runs
        search.tell(search.rate <= knee)
    raise AssertionError("the search does not end")


@given(st.floats(0.05, 150), st.floats(0.1, 20))
def test_finds_the_knee_from_any_hint(knee: float, hint: float) -> None:
    search = Search(hint)
    find(search, knee)
    assert search.good <= knee < search.bad <= search.good * search.precision


def test_a_good_hint_needs_few_runs() -> None:
    assert max(find(Search(hint), 5.0) for hint in (4.5, 4.8, 5.0, 5.2, 5.5)) <= 5


@pytest.mark.parametrize(("knee", "good"), [(0.001, 0.0), (1e9, 200.0)])
def test_gives_up_beyond_what_is_of_interest(knee: float, good: float) -> None:
    search = Search(1.0)
    find(search, knee)
    assert search.good == good
