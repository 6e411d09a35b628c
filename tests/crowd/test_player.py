"""The simulated player: cases by hand, and what holds for any arrivals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voxrtc.crowd.player import Player, Stall, on_time, replay

ARRIVALS = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=1, max_size=30).map(
    lambda steps: [(sum(gap for gap, _ in steps[: i + 1]), seconds) for i, (_, seconds) in enumerate(steps)]
)  # (when, seconds) in whole numbers, so that sums are exact


def test_plays_on_while_sound_comes_in_time() -> None:
    player = replay([(10.0, 1.0), (10.5, 1.0), (12.0, 1.0)], delay=0.0)  # the last one just in time
    assert not player.stalled and player.sound == 3.0
    assert [player.played(at) for at in (9.0, 10.0, 11.5, 13.0, 20.0)] == [0.0, 0.0, 1.5, 3.0, 3.0]


def test_runs_dry_and_goes_on_with_the_next_chunk() -> None:
    player = replay([(10.0, 1.0), (11.5, 1.0), (14.0, 1.0)], delay=0.0)
    assert player.stalls == [Stall(11.0, 0.5), Stall(12.5, 1.5)]
    assert player.played(14.5) == 2.5


def test_waiting_before_the_first_sound_spares_stalls() -> None:
    arrivals = [(10.0, 1.0), (11.2, 1.0)]
    assert [replay(arrivals, delay).stalled for delay in (0.0, 0.05, 0.25)] == [True, True, False]
    assert replay(arrivals, 0.25).played(10.2) == 0.0


def test_sound_that_ends_is_no_stall() -> None:
    player = Player()
    player.push(1.0, 0.5)
    assert player.played(100.0) == 0.5 and not player.stalled


def test_chunks_are_late_until_they_have_caught_up() -> None:
    assert on_time([(10.0, 1.0)]) == 0
    assert on_time([(10.0, 1.0), (11.0, 1.0)]) == 1
    assert on_time([(10.0, 1.0), (11.5, 1.0), (12.4, 0.5), (12.5, 1.0)]) == 1  # the player shifts, the yardstick doesn't


@given(ARRIVALS, st.integers(0, 500))
def test_sound_and_silence_add_up(arrivals: list[tuple[int, int]], delay: int) -> None:
    """From the first chunk to the last sample a player waits, plays and stalls, and nothing else."""
    player = replay(arrivals, delay)
    silence = delay + sum(stall.length for stall in player.stalls)
    assert player.ends - arrivals[0][0] == player.sound + silence
    assert player.sound == sum(seconds for _, seconds in arrivals) == player.played(player.ends)
    assert all(stall.length > 0 for stall in player.stalls)


@given(ARRIVALS, st.integers(0, 500), st.integers(0, 500))
def test_who_waits_longer_stalls_no_more(arrivals: list[tuple[int, int]], short: int, more: int) -> None:
    hasty, patient = replay(arrivals, short), replay(arrivals, short + more)
    assert len(patient.stalls) <= len(hasty.stalls) and (hasty.stalled or not patient.stalled)


@given(ARRIVALS)
def test_all_chunks_are_on_time_just_if_nothing_stalls(arrivals: list[tuple[int, int]]) -> None:
    assert (on_time(arrivals) == len(arrivals) - 1) == (not replay(arrivals, 0).stalled)


@given(ARRIVALS, st.lists(st.integers(0, 40_000), min_size=2))
def test_the_clock_never_goes_back(arrivals: list[tuple[int, int]], times: list[int]) -> None:
    player = replay(arrivals, 0)
    readings = [player.played(at) for at in sorted(times)]
    assert readings == sorted(readings)
