"""Who takes a stream: cases by hand, and what must hold for all."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.clocks import Offset, from_replica, to_replica
from voxrtc.engine.router import NEAR, Replica, capacity, choose
from voxrtc.messages.engine import Chunk, CostStats, Generate, Playout, Timing

REPLICAS = st.lists(
    st.builds(Replica, st.text("abc", min_size=1), st.integers(0, 90), st.integers(1, 80), st.booleans()),
    min_size=1,
    unique_by=lambda replica: replica.name,
)


@given(REPLICAS, st.randoms())
def test_the_choice_is_the_emptiest_or_a_near_one_with_room_in_whatever_order(replicas: list[Replica], chance: object) -> None:
    chosen = next(replica for replica in replicas if replica.name == choose(replicas))
    near = chosen.near and chosen.load <= NEAR
    assert near or all(chosen.load <= other.load for other in replicas)
    assert near or not any(other.near and other.load <= NEAR for other in replicas)
    chance.shuffle(replicas)  # type: ignore[attr-defined]
    assert choose(replicas) == chosen.name


def test_a_voice_is_where_it_was_made_until_that_one_is_nearly_full() -> None:
    home, other = Replica("home", 7, 10, near=True), Replica("other", 0, 10)
    assert choose([home, other]) == "home"
    assert choose([replace(home, streams=8), other]) == "other"


def test_a_faster_replica_takes_more() -> None:
    """Streams one after another, on replicas that bear 30 and 10."""
    given_ = {"fast": 0, "slow": 0}
    for _ in range(40):
        given_[choose([Replica("fast", given_["fast"], 30), Replica("slow", given_["slow"], 10)])] += 1
    assert given_ == {"fast": 30, "slow": 10}


def test_capacity_by_hand() -> None:
    """At 50 frames a second a step has 20 ms: 2 and 1 a stream leave room for 18. Sound: 1000 ms, 2 x 10, 2 x 5 + 50 x 1."""
    step = CostStats(call_ms=1.5, each_ms={"stream": 0.75, "prompt token": 9.0}, observed=9)
    depth = CostStats(call_ms=0.5, each_ms={"stream": 0.25}, observed=9)
    codec = CostStats(call_ms=10.0, each_ms={"stream": 5.0, "frame": 1.0}, observed=9)
    costs = {"step": step, "depth": depth, "codec": codec}
    assert capacity(costs, 50.0, 64) == 16  # (1000 - 20) / 60
    assert capacity({**costs, "codec": CostStats(call_ms=0, each_ms={"stream": 0, "frame": 0}, observed=1)}, 50.0, 64) == 18
    assert capacity(costs, 50.0, 4) == 4
    assert (
        capacity({**costs, "step": CostStats(call_ms=50.0, each_ms={"stream": 1.0, "prompt token": 0}, observed=9)}, 50, 64)
        == 1
    )
    assert capacity({}, 50.0, 64) == 64


@given(st.floats(-1e5, 1e5), st.lists(st.tuples(st.floats(1e-4, 0.5), st.floats(0, 1)), min_size=1, max_size=40))
def test_another_machines_clock_is_known_to_half_of_the_quickest_answer(offset: float, ways: list[tuple[float, float]]) -> None:
    """Ways there and back take different times; answers beyond the latest are forgotten."""
    clock, now = Offset(), 100.0
    assert clock.seconds == 0
    for seconds, share in ways:
        clock.observe(now, now + share * seconds + offset, now + seconds)
        now += 1
    quickest = min(seconds for seconds, _ in ways[-16:])
    assert clock.seconds == pytest.approx(offset, abs=quickest / 2 + 1e-9)


def test_times_are_told_by_the_clock_of_who_hears_them() -> None:
    now = time.monotonic()
    assert to_replica(Generate(stream="s", text="", accepted=now), 5.0).accepted == now + 5
    assert to_replica(Playout(stream="s", played=1.0, at=now, running=True), 5.0).at == now + 5
    timing = Timing(accepted=1, received=2, prompt_ready=3, first_step=4, first_frame=5, first_chunk=6)
    chunk = Chunk(stream="s", index=0, pcm=b"", sample_rate=1, timing=timing)
    told = from_replica(chunk, 0.5).timing
    assert told == Timing(accepted=0.5, received=1.5, prompt_ready=2.5, first_step=3.5, first_frame=4.5, first_chunk=5.5)
