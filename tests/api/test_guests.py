"""A public host's bounds: how much an address may ask, who gets a place, and who stands in line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.api import guests, waiting
from voxrtc.api.errors import ApiError
from voxrtc.api.guests import Guests, household
from voxrtc.api.waiting import CALLED, EACH, MOST, Ticket, WaitingRoom


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(do: object, *inputs: object) -> ApiError:
    with pytest.raises(ApiError) as error:
        do(*inputs)  # type: ignore[operator]
    return error.value


# --- addresses ---


def test_an_address_has_so_many_calls_at_a_time() -> None:
    ours = Guests(2, 100, Time())
    ours.enter("1.2.3.4")
    ours.enter("1.2.3.4")
    ours.enter("1.2.3.5")
    error = refused(ours.enter, "1.2.3.4")
    assert (error.status_code, error.code) == (429, "too_many_of_yours")
    ours.leave("1.2.3.4")
    ours.enter("1.2.3.4")


def test_and_begins_so_many_a_minute() -> None:
    clock = Time()
    ours = Guests(100, 3, clock)
    for _ in range(3):
        ours.enter("1.2.3.4")
        ours.leave("1.2.3.4")
        clock.now += 10
    error = refused(ours.enter, "1.2.3.4")
    assert (error.status_code, error.code, error.retry_after) == (429, "too_often", 30)
    clock.now += 29.9
    refused(ours.enter, "1.2.3.4")
    clock.now += 0.2
    ours.enter("1.2.3.4")


def test_a_household_has_a_whole_network_of_ipv6() -> None:
    assert household("2001:db8:1:2::7") == household("2001:db8:1:2:ffff::1") != household("2001:db8:1:3::7")
    assert household("::ffff:1.2.3.4") == household("1.2.3.4") == "1.2.3.4"
    assert household("testclient") == "testclient"


def test_addresses_without_calls_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "SWEEP", 8)
    clock = Time()
    ours = Guests(1, 1, clock)
    ours.enter("9.9.9.9")
    for number in range(100):
        ours.enter(f"1.1.1.{number}")
        ours.leave(f"1.1.1.{number}")
        clock.now += 61
    assert len(ours._guests) <= 9
    refused(ours.enter, "9.9.9.9")


# --- places ---


def wait(room: WaitingRoom, address: str = "1.1.1.1") -> Ticket:
    return room.join(address, lambda: None)


def test_whoever_comes_first_is_called_first() -> None:
    room = WaitingRoom(1, Time())
    room.take("a")
    first, second = wait(room, "1"), wait(room, "2")
    assert (room.place(first), room.place(second)) == (1, 2)
    room.free("a")
    assert first.called is not None
    assert second.called is None
    assert room.place(second) == 1
    refused(room.take, "stranger")
    refused(room.take, "cheat", second.number)
    room.take("b", first.number)
    refused(room.take, "c", first.number)
    room.free("b")
    room.take("d", second.number)
    assert room.waiting == 0


def test_a_full_house_says_how_long_it_takes() -> None:
    clock = Time()
    room = WaitingRoom(2, clock)
    room.take("a")
    room.take("b")
    error = refused(room.take, "c")
    assert (error.status_code, error.code) == (503, "places_taken")
    assert error.retry_after == waiting.TYPICAL / 2
    for _ in range(40):
        clock.now += 10
        room.free("a")
        room.take("a")
    assert refused(room.take, "c").retry_after == pytest.approx(5, abs=0.1), "as long as calls last here"


def test_who_was_called_and_does_not_come_makes_room() -> None:
    clock = Time()
    room = WaitingRoom(1, clock)
    room.take("a")
    moves: list[str] = []
    first = room.join("1", lambda: moves.append("first"))
    second = room.join("2", lambda: moves.append("second"))
    room.free("a")
    moves.clear()
    clock.now += CALLED
    room.look()
    assert second.called is not None
    assert "second" in moves
    refused(room.take, "late", first.number)


def test_who_leaves_the_line_is_not_called() -> None:
    room = WaitingRoom(1, Time())
    room.take("a")
    first, second = wait(room, "1"), wait(room, "2")
    room.leave(first)
    assert room.place(second) == 1
    room.free("a")
    assert second.called is not None


def test_the_line_is_bounded() -> None:
    room = WaitingRoom(1, Time())
    room.take("a")
    for _ in range(EACH):
        wait(room, "same")
    assert refused(wait, room, "same").status_code == 429
    for number in range(MOST - EACH):
        wait(room, str(number))
    assert refused(wait, room, "one more").code == "queue_full"


@given(st.lists(st.sampled_from(["join", "leave", "come", "take", "free", "later"]), max_size=60), st.integers(1, 3))
def test_places_are_never_given_twice_and_nobody_is_forgotten(steps: list[str], places: int) -> None:
    clock = Time()
    room, calls, line = WaitingRoom(places, clock), [], []  # type: ignore[var-annotated]
    for number, step in enumerate(steps):
        if step == "join" and len(line) < 5:
            line.append(wait(room, str(number)))
        elif step == "leave" and line:
            room.leave(line.pop(0))
        elif step in ("come", "take"):
            ticket = next((ticket.number for ticket in line if ticket.called is not None), "") if step == "come" else ""
            try:
                room.take(str(number), ticket)
                calls.append(str(number))
            except ApiError:
                pass
        elif step == "free" and calls:
            room.free(calls.pop(0))
        elif step == "later":
            clock.now += CALLED / 2
        room.look()
        line = [ticket for ticket in line if ticket in room._line]
        called = [ticket for ticket in line if ticket.called is not None]
        assert len(calls) + len(called) <= places
        assert len(calls) + len(called) == places or len(called) == len(line), "a free place is offered at once"
        assert [room.place(ticket) for ticket in line if ticket.called is None] == list(range(1, len(line) - len(called) + 1))
