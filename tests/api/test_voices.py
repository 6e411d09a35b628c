"""Voices that people brought along: how many, for how long, and whose."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.api.test_guests import Time, refused
from voxrtc.api.errors import ApiError
from voxrtc.api.recording import Measured, Recording
from voxrtc.api.voices import IDLE, MOST, OWN, SPARED, Voice, Voices
from voxrtc.messages.engine import Reference


def recording(what: str) -> Recording:
    return Recording(Reference(pcm=what.encode(), sample_rate=24_000), Measured(8.0, 48_000, -20.0, -60.0, 0.0))


def add(voices: Voices, owner: str, name: str = "me") -> Voice:
    return voices.add(owner, name, recording(f"{owner} {name}"), now=1.0)[0]


def test_a_voice_is_found_by_its_id_alone_and_no_two_are_alike() -> None:
    voices = Voices(Time())
    one, same = add(voices, "a"), add(voices, "a")
    assert one.id != same.id and voices.find(one.id) is one and voices.find(same.id) is same
    for guess in ("", "me", "default", one.id[:-1], one.id.upper(), f"{one.id} "):
        assert voices.find(guess) is None and voices.remove(guess) is None


def test_of_too_many_of_ones_own_the_least_recently_used_goes() -> None:
    clock = Time()
    voices = Voices(clock)
    other = add(voices, "b")
    own = [add(voices, "a", str(number)) for number in range(OWN)]
    voices.find(own[0].id)
    more, gone = voices.add("a", "more", recording("more"), 1.0)
    assert gone == [own[1]] and voices.find(own[1].id) is None
    assert all(voices.find(voice.id) for voice in (own[0], *own[2:], more, other))


def test_a_strangers_voice_goes_only_when_nobody_uses_it() -> None:
    clock = Time()
    voices = Voices(clock)
    first, *others = [add(voices, str(number)) for number in range(MOST)]
    clock.now += SPARED - 10
    voices.used([first.id, "unknown"])
    error = refused(voices.add, "new", "me", recording("new"), 1.0)
    assert (error.status_code, error.code) == (503, "too_many_voices") and error.retry_after == pytest.approx(10)
    clock.now += 10
    assert voices.add("new", "me", recording("new"), 1.0)[1] == [others[0]], "of those that nobody uses, the first"
    assert voices.find(first.id)


def test_what_nobody_uses_goes_after_a_while() -> None:
    clock = Time()
    voices = Voices(clock)
    kept, left = add(voices, "a"), add(voices, "b")
    clock.now += IDLE - 1
    assert voices.idle() == [] and voices.left(left.id) == pytest.approx(1)
    voices.used([kept.id])
    clock.now += 1
    assert voices.idle() == [left] and voices.find(left.id) is None and voices.all == [kept]


class Comings(RuleBasedStateMachine):
    """Whatever comes and goes: bounds hold, and an id is its own recording or nothing."""

    @initialize()
    def begin(self) -> None:
        self.clock = Time()
        self.voices, self.known, self.refused = Voices(self.clock), dict[str, Voice](), False

    @rule(owner=st.sampled_from("abc"), crowd=st.integers(1, MOST))
    def add(self, owner: str, crowd: int) -> None:
        for number in range(crowd):
            try:
                voice, gone = self.voices.add(f"{owner}{number}", "me", recording(f"{len(self.known)}"), 1.0)
            except ApiError:
                self.refused = True
                break
            assert voice.id not in self.known and all(self.known[each.id] is each for each in gone)
            assert all(self.voices.remove(each.id) is None for each in gone)
            self.known[voice.id] = voice

    @rule(number=st.integers(0, 200), seconds=st.floats(0, IDLE))
    def use(self, number: int, seconds: float) -> None:
        self.clock.now += seconds
        ids = list(self.known)
        if ids:
            id = ids[number % len(ids)]
            assert self.voices.find(id) in (None, self.known[id])

    @rule(number=st.integers(0, 200))
    def remove(self, number: int) -> None:
        ids = list(self.known)
        if ids:
            id = ids[number % len(ids)]
            assert self.voices.remove(id) in (None, self.known[id]) and self.voices.find(id) is None

    @rule()
    def sweep(self) -> None:
        for voice in self.voices.idle():
            assert self.voices.find(voice.id) is None
        assert all(self.voices.left(voice.id) > 0 for voice in self.voices.all)

    @invariant()
    def bounded(self) -> None:
        if self.refused:  # since no stranger's voice was there to go
            assert all(self.clock.now - used < SPARED for used, _ in self.voices._used.values())
            self.refused = False
        owners = [voice.owner for voice in self.voices.all]
        assert len(owners) <= MOST and all(owners.count(owner) <= OWN for owner in set(owners))


TestComings = Comings.TestCase
TestComings.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=20))
def test_who_adds_much_takes_nothing_from_another(owners: list[str]) -> None:
    voices = Voices(Time())
    mine = add(voices, "mine")
    for owner in owners:
        add(voices, owner)
    assert voices.find(mine.id) is mine
