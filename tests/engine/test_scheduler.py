"""The policies as pure functions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.costs import Costs, LinearCost
from voxrtc.engine.scheduler import POLICIES, Machine, Policy, StreamView, fifo, offline, playout, two_phase

COSTS = Costs(LinearCost((4e-3, 5e-4, 3e-5)), LinearCost((2e-3, 1e-4, 3e-4)), LinearCost((0.0, 0.0)))
MACHINE = Machine(slots=6, pages=100, frame_rate=40, min_chunk=4, first_chunk=8, chunk=8, long_chunk=16, prefill_tokens=64,
                  max_ahead=20, detokenizer_busy=False, costs=COSTS)  # fmt: skip
VIEW = StreamView(id="a", arrived=0, admitted=True, pages=10, prefill_left=0, complete=False, pending=0, slack=None)
SLOW = replace(MACHINE, costs=Costs(LinearCost((4e-3, 8e-3, 3e-5)), COSTS.codec, COSTS.depth))  # keeps pace with two streams
all_policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@st.composite
def snapshots(draw: st.DrawFn) -> list[StreamView]:
    views: list[StreamView] = []
    for i in range(draw(st.integers(0, 12))):
        admitted = draw(st.booleans()) and sum(view.admitted for view in views) < MACHINE.slots
        pending = draw(st.integers(0, 30)) if admitted else 0
        view = StreamView(
            id=str(i),
            arrived=draw(st.floats(0, 10)),
            admitted=admitted,
            pages=0 if admitted else draw(st.integers(1, 60)),
            prefill_left=draw(st.integers(0, 90)) if admitted and not pending else 0,
            complete=admitted and draw(st.booleans()),
            pending=pending,
            ripe=max(0, pending - draw(st.integers(0, 15))),
            slack=draw(st.none() | st.floats(0, 60)),
            ahead=draw(st.floats(0, 60)),
            starved=admitted and draw(st.booleans()),
            head_start=math.inf if admitted else draw(st.sampled_from([0.0, 60.0, math.inf])),
        )
        views.append(replace(view, complete=view.complete and not view.prefill_left))
    return views


@all_policies
@given(streams=snapshots(), busy=st.booleans())
def test_limits_hold_and_nobody_overtakes_at_the_door(policy: Policy, streams: list[StreamView], busy: bool) -> None:
    machine = replace(MACHINE, detokenizer_busy=busy)
    plan = policy(10.0, streams, machine)
    by_id = {view.id: view for view in streams}
    assert plan == policy(10.0, list(reversed(streams)), machine), "the order of the snapshot does not matter"
    assert len(plan.admit) + sum(view.admitted for view in streams) <= machine.slots
    assert sum(by_id[name].pages for name in plan.admit) <= machine.pages
    waiting = sorted(
        (view for view in streams if not view.admitted),
        key=lambda view: (view.arrived - view.head_start, view.arrived, view.id),
    )
    assert list(plan.admit) == [view.id for view in waiting[: len(plan.admit)]]
    assert sum(count for _, count in plan.prefill) <= machine.prefill_tokens
    running = {name for name, _ in plan.prefill} | set(plan.decode) | {name for name, _ in plan.detokenize}
    assert all(by_id[name].admitted for name in running)
    assert not {name for name, _ in plan.prefill} & set(plan.decode)
    assert not any(by_id[name].complete or by_id[name].prefill_left or by_id[name].starved for name in plan.decode)
    assert all(count == by_id[name].pending and (count or by_id[name].complete) for name, count in plan.detokenize)
    assert not (busy and plan.detokenize)


@all_policies
@given(streams=snapshots(), pages=st.integers(0, 8), data=st.data())
def test_pages_suffice_or_somebody_with_slack_gives_way(
    policy: Policy, streams: list[StreamView], pages: int, data: st.DataObject
) -> None:
    machine, views = replace(MACHINE, pages=pages, page_size=8), []
    for view in streams:
        position = data.draw(st.integers(0, 40)) if view.admitted else 0
        evicted = view.admitted and data.draw(st.booleans())
        held = 0 if evicted else -(-position // 8)
        views.append(
            replace(view, position=position, evicted=evicted, held=held, pages=-(-position // 8) + 1 if evicted else view.pages)
        )
    by_id = {view.id: view for view in views}
    plan = policy(10.0, views, machine)
    grown = sum(
        max(0, -(-(by_id[name].position + count) // 8) - by_id[name].held)
        for name, count in [*plan.prefill, *((name, 1) for name in plan.decode)]
    )
    freed = sum(by_id[name].held for name in plan.preempt)
    assert grown + sum(by_id[name].pages for name in plan.admit) <= pages + freed
    running = {name for name, _ in plan.prefill} | set(plan.decode)
    assert not running & set(plan.preempt) and not any(by_id[name].evicted for name in running)
    assert not (plan.preempt and plan.admit), "what was given up is for those who run"
    slack = {name: -1.0 if by_id[name].slack is None else by_id[name].slack for name in running | set(plan.preempt)}
    assert all(slack[victim] >= slack[name] for victim in plan.preempt for name in running if by_id[name].held)


@all_policies
@given(streams=snapshots())
def test_work_is_conserved(policy: Policy, streams: list[StreamView]) -> None:
    """Whoever can decode does, unless it is many seconds ahead; some prompt is prefilled if there is one."""
    plan = policy(10.0, streams, MACHINE)
    for view in streams:
        ahead = view.ahead + view.pending / MACHINE.frame_rate
        if view.admitted and not (view.prefill_left or view.complete or view.starved) and ahead < MACHINE.max_ahead:
            assert view.id in plan.decode
    assert bool(plan.prefill) == any(view.admitted and view.prefill_left for view in streams)


def test_who_waits_for_text_counts_at_the_door() -> None:
    """It goes on at any moment."""
    inside = [replace(VIEW, id=str(i), starved=True, slack=5.0) for i in range(2)]
    queue = replace(VIEW, id="new", admitted=False)
    assert not playout(1.0, [*inside, queue], SLOW).admit
    assert playout(1.0, [inside[0], queue], SLOW).admit == ("new",)


@all_policies
def test_the_end_is_flushed_even_without_frames(policy: Policy) -> None:
    assert policy(0, [replace(VIEW, complete=True)], MACHINE).detokenize == (("a", 0),)


@pytest.mark.parametrize("policy", [fifo, two_phase, playout])
def test_a_stream_far_ahead_rests(policy: Policy) -> None:
    assert policy(0, [replace(VIEW, slack=30.0, ahead=19.9)], MACHINE).decode == ("a",)
    assert policy(0, [replace(VIEW, slack=30.0, ahead=20.0)], MACHINE).decode == ()
    assert offline(0, [replace(VIEW, slack=30.0, ahead=20.0)], MACHINE).decode == ("a",)


@all_policies
def test_the_first_in_the_queue_gets_in_at_last(policy: Policy) -> None:
    """Whatever comes after it: a big one at the head is waited for."""
    head = replace(VIEW, id="head", admitted=False, pages=90)
    small = [replace(VIEW, id=f"s{i}", arrived=1 + i, admitted=False, pages=5) for i in range(9)]
    assert policy(5, [head, *small], replace(MACHINE, pages=50)).admit == ()
    assert policy(5, [*small, head], MACHINE).admit[0] == "head"


def test_fifo_goes_by_fixed_sizes() -> None:
    assert fifo(0, [replace(VIEW, pending=22, ripe=7)], MACHINE).detokenize == ()
    assert fifo(0, [replace(VIEW, pending=23, ripe=8)], MACHINE).detokenize == (("a", 23),)
    assert fifo(0, [replace(VIEW, pending=7, ripe=7, slack=1.0)], MACHINE).detokenize == ()
    assert fifo(0, [replace(VIEW, pending=8, ripe=8, slack=1.0)], MACHINE).detokenize == (("a", 8),)


def test_two_phase_waits_for_somebody_urgent_and_fills_up() -> None:
    calm = replace(VIEW, id="calm", pending=8, ripe=8, slack=5.0)
    pressed = replace(VIEW, id="pressed", arrived=1, pending=8, ripe=8, slack=1.1)
    assert two_phase(9, [calm], MACHINE).detokenize == ()
    assert two_phase(9, [calm, pressed], MACHINE).detokenize == (("pressed", 8), ("calm", 8))


# --- playout ---


def test_an_idle_machine_starts_with_the_smallest_chunk() -> None:
    assert playout(0.1, [replace(VIEW, pending=18, ripe=3)], MACHINE).detokenize == ()
    assert playout(0.1, [replace(VIEW, pending=19, ripe=4)], MACHINE).detokenize == (("a", 19),)


def test_who_waits_for_text_starts_with_a_word_or_two() -> None:
    few, some = (replace(VIEW, starved=True, pending=fresh + 15, ripe=fresh) for fresh in (8, 10))
    assert not playout(0.0, [few], MACHINE).detokenize
    assert playout(0.0, [some], MACHINE).detokenize == (("a", 25),)
    assert playout(0.0, [replace(few, starved=False)], MACHINE).detokenize == (("a", 23),)


def test_a_first_block_goes_out_when_its_sound_lasts_until_the_next() -> None:
    """Of a detokenizer that works block by block, with some frames of the voice's in the first, and holds sound back."""
    blocks = replace(MACHINE, frame_rate=25, min_chunk=25, chunk=25, first_chunk=25)
    for mute, starts in ((11, True), (20, True), (21, False), (25, False)):
        first = replace(VIEW, pending=28, ripe=25, mute=mute)
        assert bool(playout(0.1, [first], blocks).detokenize) is starts
    for policy in (fifo, two_phase):
        assert policy(0.1, [replace(VIEW, pending=28, ripe=25, mute=18)], blocks).detokenize
        assert not policy(0.1, [replace(VIEW, pending=28, ripe=25, mute=25)], blocks).detokenize, "it would be of nothing"
    later = replace(VIEW, pending=25, ripe=25, slack=0.5)
    assert playout(9, [later], blocks).detokenize and not playout(9, [replace(later, ripe=0)], blocks).detokenize


def test_who_has_plenty_waits_for_a_long_chunk() -> None:
    """But for no longer one than the detokenizer has use for."""
    rich = replace(VIEW, slack=19.0, pending=60)
    for long in (16, 60):
        machine = replace(MACHINE, long_chunk=long)
        assert not playout(9, [replace(rich, ripe=long - 1)], machine).detokenize
        assert playout(9, [replace(rich, ripe=long)], machine).detokenize


def test_a_busy_machine_starts_with_more() -> None:
    """As much as lasts until the next chunk, by the costs at the present load."""
    busy = replace(MACHINE, slots=64)
    company = [replace(VIEW, id=f"b{i}", slack=1.0, pending=1, ripe=1) for i in range(30)]

    def start(pending: int) -> bool:
        plan = playout(0.1, [replace(VIEW, pending=pending, ripe=pending - 15), *company], busy)
        return ("a", pending) in plan.detokenize

    first = next(pending for pending in range(19, 60) if start(pending))
    assert first > 19 and all(start(pending) for pending in range(first, 60))


@given(slack=st.floats(0, 30), more=st.floats(0, 30), pending=st.integers(0, 40), companions=snapshots())
def test_more_slack_never_makes_a_stream_more_urgent(
    slack: float, more: float, pending: int, companions: list[StreamView]
) -> None:
    one = replace(VIEW, id="x", arrived=3, pending=pending, ripe=pending, slack=slack)
    plans = [playout(10, [replace(one, slack=s), *companions], replace(MACHINE, slots=64)) for s in (slack, slack + more)]
    chosen = [any(name == "x" for name, _ in plan.detokenize) for plan in plans]
    order = [[name for name, _ in plan.detokenize].index("x") if yes else 99 for plan, yes in zip(plans, chosen, strict=True)]
    assert chosen[0] >= chosen[1] and order[0] <= order[1]


def test_least_slack_first() -> None:
    streams = [replace(VIEW, id=name, slack=slack, pending=20, ripe=20) for name, slack in (("a", 0.9), ("b", 0.1), ("c", 0.5))]
    plan = playout(9, streams, MACHINE)
    assert [name for name, _ in plan.detokenize] == ["b", "c", "a"] and plan.decode == ("b", "c", "a")


def test_chunks_do_not_shrink_below_what_can_be_sustained() -> None:
    """When the detokenizer is the bottleneck, small chunks for all would make everyone later."""
    costly = replace(MACHINE, costs=Costs(COSTS.step, LinearCost((4e-2, 1e-2, 1e-4)), COSTS.depth))
    late = [replace(VIEW, id=f"l{i}", slack=0.0, pending=4, ripe=4) for i in range(6)]
    assert playout(9, late, costly).detokenize == ()
    assert playout(9, [replace(view, pending=8, ripe=8) for view in late], costly).detokenize
    assert playout(9, late, MACHINE).detokenize, "there it is no bottleneck"


def test_who_cannot_be_served_in_time_waits_at_the_door() -> None:
    playing = [replace(VIEW, id=f"p{i}", slack=1.0) for i in range(2)]
    new = replace(VIEW, id="new", arrived=9, admitted=False)
    assert playout(9, [new], SLOW).admit == ("new",)
    assert playout(9, [playing[0], new], SLOW).admit == ("new",)
    assert playout(9, [*playing, new], SLOW).admit == ()
    assert playout(9, [*playing, new], MACHINE).admit == ("new",)
    resting = [replace(view, slack=25.0, ahead=25.0) for view in playing]
    assert playout(9, [*resting, new], SLOW).admit == ("new",), "they need nothing for a while"
    hopeless = replace(MACHINE, costs=Costs(LinearCost((1.0, 1.0, 0.0)), COSTS.codec, COSTS.depth))
    assert playout(9, [new], hopeless).admit == ("new",), "one is always served"
    nexts = [replace(new, id=f"n{i}", head_start=math.inf) for i in range(2)]
    assert playout(9, [*playing, new, *nexts], SLOW).admit == ("n0", "n1"), "who speaks goes on, whatever it costs"


@all_policies
def test_a_head_start_counts_like_an_earlier_arrival(policy: Policy) -> None:
    one = replace(MACHINE, slots=1)
    early, late = (replace(VIEW, id=f"{at}", arrived=at, admitted=False) for at in (10, 50))
    assert policy(60, [early, replace(late, head_start=39.9)], one).admit == ("10",)
    assert policy(60, [early, replace(late, head_start=60.0)], one).admit == ("50",)
    speaks = replace(late, id="speaks", head_start=math.inf)
    assert policy(60, [replace(early, head_start=1e9), late, speaks], one).admit == ("speaks",)
