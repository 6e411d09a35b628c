"""Which conversation lies where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voxrtc.llm.slots import Place, Slots, common

OPENING = [1, 2, 3]


def write(slots: Slots, ids: list[int], more: list[int]) -> Place:
    """A completion from its beginning to its end."""
    place = slots.find(ids, len(OPENING))
    assert place
    slots.take(place)
    place.slot.ids = ids + more
    place.slot.busy = False
    return place


def test_a_conversation_finds_what_it_left() -> None:
    slots = Slots(4)
    first = write(slots, [*OPENING, 10, 11], [12, 13])
    write(slots, [*OPENING, 20], [21])
    again = write(slots, [*OPENING, 10, 11, 12, 13, 14], [15])
    assert again.slot is first.slot and again.kept == 7 and again.donor is None


def test_an_interrupted_one_keeps_what_was_heard() -> None:
    slots = Slots(4)
    write(slots, [*OPENING, 10, 11], [12, 13, 14])
    assert write(slots, [*OPENING, 10, 11, 12, 99], []).kept == 6


def test_a_new_one_copies_the_opening_and_leaves_the_other_alone() -> None:
    slots = Slots(2)
    first = write(slots, [*OPENING, 10], [11])
    second = write(slots, [*OPENING, 20], [])
    assert second.slot is not first.slot and (second.kept, second.donor) == (3, first.slot)


def test_the_same_question_again_computes_its_last_token_again() -> None:
    """From which the next one comes."""
    slots = Slots(2)
    write(slots, [*OPENING, 10], [11])
    assert write(slots, [*OPENING, 10], []).kept == 3


def test_what_is_being_written_is_not_taken_but_copied() -> None:
    slots = Slots(2)
    busy = slots.find([*OPENING, 10], len(OPENING))
    assert busy
    slots.take(busy)
    busy.slot.ids = [*OPENING, 10]
    place = slots.find([*OPENING, 10, 11], len(OPENING))
    assert place and place.slot is not busy.slot and (place.kept, place.donor) == (4, busy.slot)
    slots.take(place)
    assert slots.find([7], 0) is None, "all are busy"


def test_the_longest_unused_goes_first() -> None:
    slots = Slots(2)
    old = write(slots, [1, 10], [])
    write(slots, [2, 20], [])
    assert write(slots, [3, 30], []).slot is old.slot


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_what_two_have_in_common(a: list[int], b: list[int]) -> None:
    n = common(a, b)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]
