"""How Step-Audio 2 hears: the same however a recording comes, and most of it before the person is done."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.tiny import noise
from voxrtc.speechlm.base import InvalidRequest
from voxrtc.speechlm.stepaudio2.ear import RATE, SEGMENT, Ear, EarConfig
from voxrtc.speechlm.stepaudio2.hearing import BLOCK, KEPT, LONGEST, Hearing, hear


class Counting(Ear):
    """Counts what it is given."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(EarConfig(dim=16, heads=1, layers=1, out=4))
        self.requires_grad_(False)
        self.given: list[int] = []

    def forward(self, samples: Tensor) -> Tensor:
        self.given.append(len(samples))
        return super().forward(samples)


@pytest.fixture
def ear() -> Counting:
    return Counting()


def speech(seconds: float) -> Tensor:
    return 0.1 * noise(round(seconds * RATE)).clamp(-3, 3)


def silence(seconds: float) -> Tensor:
    return 1e-4 * noise(round(seconds * RATE))


def whole(ear: Ear, samples: Tensor) -> list[Tensor]:
    state = Hearing()
    hear(ear, state, samples, True)
    return state.vectors


def test_a_recording_is_heard_by_segments_without_the_quiet_behind_it(ear: Counting) -> None:
    samples = torch.cat((speech(26), silence(1), speech(1.003), silence(2)))
    vectors = whole(ear, samples)
    end = 28 * RATE + BLOCK + KEPT
    assert ear.given == [SEGMENT, end - SEGMENT]
    assert all(torch.equal(a, ear(b)) for a, b in zip(vectors, (samples[:SEGMENT], samples[SEGMENT:end]), strict=True))


@settings(max_examples=15, deadline=None)
@given(
    parts=st.lists(st.tuples(st.booleans(), st.floats(0.0, 0.7)), min_size=1, max_size=5),
    sizes=st.lists(st.integers(0, 9000), max_size=8),
)
def test_it_does_not_matter_how_a_recording_comes(parts: list[tuple[bool, float]], sizes: list[int]) -> None:
    ear = Counting()
    samples = torch.cat([speech(0.1), *((speech if loud else silence)(seconds) for loud, seconds in parts)])
    state, at = Hearing(), 0
    for size in sizes:
        hear(ear, state, samples[at : at + size], False)
        at += size
    hear(ear, state, samples[at:], True)
    expected = whole(ear, samples)
    assert state.complete and len(state.vectors) == len(expected) == 1
    assert torch.equal(state.vectors[0], expected[0])


def test_who_is_silent_before_the_end_waits_for_no_encoder(ear: Counting) -> None:
    """A pause is heard once; what follows makes it be heard anew; at the end nothing is left to do."""
    state = Hearing()
    for part in (*speech(1.0).split(320), *silence(0.5).split(320)):
        hear(ear, state, part, False)
    assert ear.given == [RATE + KEPT]
    for part in (*speech(0.5).split(320), *silence(0.4).split(320)):
        hear(ear, state, part, False)
    assert ear.given[1:] == [2 * RATE + KEPT]
    hear(ear, state, silence(0.1), True)
    assert len(ear.given) == 2 and len(state.vectors) == 1


def test_who_is_cut_off_is_heard_to_the_end(ear: Counting) -> None:
    state = Hearing()
    hear(ear, state, speech(1.0), False)
    assert ear.given == []
    hear(ear, state, torch.empty(0), True)
    assert ear.given == [RATE]


def test_a_full_segment_is_heard_while_the_person_speaks_on(ear: Counting) -> None:
    state = Hearing()
    for part in speech(26).split(RATE):
        hear(ear, state, part, False)
    assert ear.given == [SEGMENT] and len(state.vectors) == 1
    hear(ear, state, silence(30), True)
    assert ear.given[1:] == [SEGMENT] and len(state.vectors) == 2


def test_what_cannot_be_heard_is_refused(ear: Counting) -> None:
    for samples in (torch.empty(0), torch.ones(300)):
        with pytest.raises(InvalidRequest, match="Nothing was heard"):
            hear(ear, Hearing(), samples, True)
    state = Hearing(vectors=[torch.zeros(313, 4)] * 9)
    with pytest.raises(InvalidRequest, match="longer than 4 minutes"):
        hear(ear, state, torch.zeros(LONGEST * RATE - 9 * SEGMENT + 1), False)
    assert len(state.segment) == 0, "it can still be ended"
