"""Which models go for another one, whatever is loaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.engine.room import NoRoom, Resident, to_unload

residents = st.lists(
    st.builds(
        Resident,
        name=st.uuids().map(str),
        memory=st.integers(0, 16).map(float),
        used=st.integers(0, 5).map(float),
        stays=st.sampled_from(["", "", "speaks", "is being loaded"]),
    ),
    max_size=8,
)
amounts = st.integers(0, 48).map(float)


@given(amounts, amounts, residents)
def test_it_fits_afterwards_and_nobody_goes_who_must_not_or_need_not(
    needed: float, room: float, loaded: list[Resident]
) -> None:
    by_name = {resident.name: resident for resident in loaded}
    may_go = [resident for resident in loaded if not resident.stays]
    try:
        going = [by_name[name] for name in to_unload("new", needed, room, loaded)]
    except NoRoom:
        least = sum(resident.memory for resident in loaded if resident.stays)
        assert needed + least > room, "all that may go together would have been enough"
        return

    def held_without(gone: list[Resident]) -> float:
        return sum(resident.memory for resident in loaded if resident not in gone)

    assert all(resident in may_go for resident in going) and len(set(going)) == len(going)
    assert needed + held_without(going) <= room
    if going:
        assert needed + held_without(going[:-1]) > room, "the last one went in vain"
    stay = [resident for resident in may_go if resident not in going]
    assert all(gone.used <= kept.used for gone in going for kept in stay), "somebody used more recently went first"


LOADED = [Resident("lark", 1.3, used=9, stays="speaks"), Resident("pocket", 2.0, used=5), Resident("csm", 8.0, used=7)]


def test_the_least_recently_used_goes_first() -> None:
    assert to_unload("new", 1.0, 13, LOADED) == []
    assert to_unload("new", 3.0, 13, LOADED) == ["pocket"]
    assert to_unload("new", 9.0, 13, LOADED) == ["pocket", "csm"]


def test_what_can_never_fit_and_what_cannot_now_are_told_apart() -> None:
    with pytest.raises(NoRoom, match=r"needs about 14.0 GB, and models may take 13.0 GB here. Choose a smaller one") as never:
        to_unload("new", 14.0, 13, LOADED)
    assert "lark" not in str(never.value)
    with pytest.raises(NoRoom, match=r"“lark” holds 1.3 GB and speaks. Try again when that is over"):
        to_unload("new", 12.0, 13, LOADED)
