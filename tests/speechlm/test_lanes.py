"""Detokenizers in lanes, as a device records them: played again from a tape, they say what they say without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.speechlm.families import DETOKENIZERS, Voice, assert_same, speak
from tests.tape import Tape
from voxrtc.engine.graphs import Graphs
from voxrtc.speechlm.codecs.lanes import AT_ONCE, LONGEST, InLanes

STREAMS = 3  # lanes, beside which a call may bring more
FRAMES = 60
CHUNKS = st.lists(st.integers(0, 4), min_size=1, max_size=4)  # groups of frames; the last chunk is final
HISTORY = st.lists(st.tuples(st.integers(0, 3), CHUNKS), min_size=2, max_size=4)  # when each stream joins, and its chunks


@pytest.fixture(scope="module", params=["orpheus", "csm", "pocket-plain"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def plain(name: str, tmp_path_factory: pytest.TempPathFactory) -> Voice:
    return DETOKENIZERS[name](tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def graphs(name: str) -> Graphs:
    return Graphs(Tape().record)


@pytest.fixture(scope="module")
def laned(name: str, graphs: Graphs, tmp_path_factory: pytest.TempPathFactory) -> Voice:
    voice = DETOKENIZERS[name](tmp_path_factory.mktemp(name))
    assert voice.detokenizer.record(STREAMS, graphs.run)
    return voice


def in_frames(voice: Voice, history: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """The same in whole groups."""
    return [(join, [voice.detokenizer.group * groups for groups in chunks]) for join, chunks in history]


@settings(max_examples=5, deadline=None)
@given(history=HISTORY)
def test_streams_that_join_and_leave_sound_as_alone_and_at_once(
    plain: Voice, laned: Voice, history: list[tuple[int, list[int]]]
) -> None:
    history = in_frames(plain, history)
    for i, (streamed, (_, chunks)) in enumerate(zip(speak(laned, history), history, strict=True)):
        assert_same(streamed, plain.whole(plain.utterance(sum(chunks), seed=i), seed=i))


def test_a_pass_comes_of_few_recordings_whatever_it_brings(laned: Voice, graphs: Graphs) -> None:
    for size in (1, 3, 2, 4, 3, 4, 1, 3, 2):
        speak(laned, in_frames(laned, [(0, [size, size])]))
    before = graphs.runs, graphs.repeats, graphs.count
    for size in (4, 3, 1, 2):
        speak(laned, in_frames(laned, [(0, [size, size])]))
    assert graphs.count == before[2] and graphs.repeats - before[1] == graphs.runs - before[0] >= 4


def test_long_and_short_parts_of_more_streams_than_there_are_lanes(plain: Voice, laned: Voice, graphs: Graphs) -> None:
    """A part longer than a lane is several passes; a short one is not filled up to the longest."""
    assert FRAMES > LONGEST
    history = in_frames(plain, [(0, [FRAMES]), *[(0, [1, 1])] * (STREAMS + 1)])
    for i, (streamed, (_, chunks)) in enumerate(zip(speak(laned, history), history, strict=True)):
        assert_same(streamed, plain.whole(plain.utterance(sum(chunks), seed=i), seed=i))
    assert all(lanes <= STREAMS and lanes * length <= AT_ONCE and length <= LONGEST for lanes, length in graphs._seen)


def test_a_call_that_fails_moves_no_state(plain: Voice, laned: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails in the second of its passes."""
    codes, group = plain.utterance(FRAMES * plain.detokenizer.group), plain.detokenizer.group
    state, passed, run = laned.detokenizer.new_state(5), [], InLanes._pass
    streamed = laned.detokenizer.decode([codes[: 2 * group]], [state], [False])

    def failing(self: InLanes, *rest: Any) -> list[Tensor]:
        passed.append(rest)
        if len(passed) == 2:
            raise MemoryError
        return run(self, *rest)

    monkeypatch.setattr(InLanes, "_pass", failing)
    with pytest.raises(MemoryError):
        laned.detokenizer.decode([codes[2 * group :]], [state], [False])
    streamed += laned.detokenizer.decode([codes[2 * group :]], [state], [True])
    assert_same(streamed, plain.whole(codes, 5))


@pytest.mark.parametrize("name", ["pocket-plain"], indirect=True)
def test_a_stream_without_numbers_harms_no_other(plain: Voice, laned: Voice) -> None:
    """Latents, since codes are always numbers."""
    codes, states = plain.utterance(4), [laned.detokenizer.new_state(0), laned.detokenizer.new_state(0)]
    broken, well = laned.detokenizer.decode([codes * torch.nan, codes], states, [False, False])
    assert not broken.isfinite().all()
    assert_same([well], plain.whole(codes))
    again = laned.detokenizer.decode([codes, codes], [laned.detokenizer.new_state(0) for _ in states], [True, True])
    for sound in again:
        assert_same([sound], plain.whole(codes))
