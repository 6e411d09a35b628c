"""The `fifo` policy as a pure function."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.scheduler import Machine, StreamView, fifo

MACHINE = Machine(
    slots=4,
    pages=100,
    frame_rate=40,
    lookahead=16,
    chunk=8,
    prefill_tokens=64,
    max_ahead=20,
    detokenizer_busy=False,
)
VIEW = StreamView(id="a", arrived=0, admitted=True, pages=10, prefill_left=0, complete=False, pending=0, made=0, slack=None)


@st.composite
def views(draw: st.DrawFn) -> list[StreamView]:
    count = draw(st.integers(0, 12))
    made = []
    for i in range(count):
        admitted = draw(st.booleans()) and sum(view.admitted for view in made) < MACHINE.slots
        pending = draw(st.integers(0, 30))
        made.append(
            StreamView(
                id=str(i),
                arrived=draw(st.floats(0, 10)),
                admitted=admitted,
                pages=0 if admitted else draw(st.integers(1, 60)),
                prefill_left=draw(st.integers(0, 90)),
                complete=draw(st.booleans()),
                pending=pending,
                made=pending + draw(st.integers(0, 5)),
                slack=draw(st.none() | st.floats(0, 60)),
            )
        )
    return made


@given(views(), st.booleans())
def test_limits_hold_and_order_is_by_arrival(streams: list[StreamView], busy: bool) -> None:
    machine = replace(MACHINE, detokenizer_busy=busy)
    plan = fifo(10.0, streams, machine)
    by_id = {view.id: view for view in streams}
    assert plan == fifo(10.0, list(reversed(streams)), machine), "the order of the snapshot does not matter"
    assert len(plan.admit) + sum(view.admitted for view in streams) <= machine.slots
    assert sum(by_id[name].pages for name in plan.admit) <= machine.pages
    waiting = sorted((view for view in streams if not view.admitted), key=lambda view: (view.arrived, view.id))
    assert list(plan.admit) == [view.id for view in waiting[: len(plan.admit)]], "nobody overtakes"
    assert sum(count for _, count in plan.prefill) <= machine.prefill_tokens
    running = {name for name, _ in plan.prefill} | set(plan.decode) | {name for name, _ in plan.detokenize}
    assert all(by_id[name].admitted for name in running)
    assert not {name for name, _ in plan.prefill} & set(plan.decode)
    assert not (busy and plan.detokenize)


@given(views())
def test_work_is_conserved(streams: list[StreamView]) -> None:
    """Whoever can decode does, unless it is many seconds ahead."""
    plan = fifo(10.0, streams, MACHINE)
    for view in streams:
        ahead = (view.slack or 0) + view.pending / MACHINE.frame_rate
        if view.admitted and not view.prefill_left and not view.complete and ahead < MACHINE.max_ahead:
            assert view.id in plan.decode


def test_the_first_chunk_fills_the_lookahead() -> None:
    assert fifo(0, [replace(VIEW, pending=23, made=23)], MACHINE).detokenize == ()
    assert fifo(0, [replace(VIEW, pending=24, made=24)], MACHINE).detokenize == (("a", 24),)
    assert fifo(0, [replace(VIEW, pending=7, made=40, slack=1.0)], MACHINE).detokenize == ()
    assert fifo(0, [replace(VIEW, pending=8, made=40, slack=1.0)], MACHINE).detokenize == (("a", 8),)


def test_the_end_is_flushed_even_without_frames() -> None:
    assert fifo(0, [replace(VIEW, complete=True, made=40)], MACHINE).detokenize == (("a", 0),)


def test_a_stream_far_ahead_rests() -> None:
    assert fifo(0, [replace(VIEW, slack=19.9)], MACHINE).decode == ("a",)
    assert fifo(0, [replace(VIEW, slack=20.0)], MACHINE).decode == ()
