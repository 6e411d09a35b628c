"""What every detokenizer promises: the sound does not hang on how a stream was cut, nor on its company."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.speechlm.families import DETOKENIZERS, Voice, assert_same, speak

CHUNKS = st.lists(st.integers(0, 12), min_size=1, max_size=8)  # frames; the last chunk is final


@pytest.fixture(scope="module", params=DETOKENIZERS)
def voice(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Voice:
    return DETOKENIZERS[request.param](tmp_path_factory.mktemp(request.param))


@settings(max_examples=25)
@given(chunks=CHUNKS, seed=st.integers(0, 2**62))
def test_any_chunking_equals_one_call(voice: Voice, chunks: list[int], seed: int) -> None:
    detokenizer = voice.detokenizer
    codes, state, streamed, given_frames = voice.utterance(sum(chunks)), detokenizer.new_state(seed), [], 0
    rate, before = detokenizer.samples_per_group / detokenizer.group, detokenizer.before(None)
    for i, part in enumerate(codes.split(chunks)):
        given_frames += len(part)
        streamed += detokenizer.decode([part], [state], [i + 1 == len(chunks)])
        assert sum(map(len, streamed)) >= math.floor((given_frames - detokenizer.lookahead) * rate), "lookahead is declared"
        worked = detokenizer.ripe(before + given_frames) - before
        assert sum(map(len, streamed)) >= math.floor((worked - detokenizer.lag) * rate), "the engine counts on it"
    assert sum(map(len, streamed)) == detokenizer.samples_per_group * (len(codes) // detokenizer.group)
    assert_same(streamed, voice.whole(codes, seed))


@settings(max_examples=15)
@given(streams=st.lists(st.tuples(st.integers(0, 4), CHUNKS), min_size=2, max_size=5))
def test_streams_that_join_and_leave_do_not_disturb_each_other(voice: Voice, streams: list[tuple[int, list[int]]]) -> None:
    for i, (streamed, (_, chunks)) in enumerate(zip(speak(voice, streams), streams, strict=True)):
        assert_same(streamed, voice.whole(voice.utterance(sum(chunks), seed=i), seed=i))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_tiny_utterances_come_whole_frame_by_frame(voice: Voice, groups: int) -> None:
    codes, state = voice.utterance(groups * voice.detokenizer.group), voice.detokenizer.new_state(0)
    early = [voice.detokenizer.decode([frame[None]], [state], [False])[0] for frame in codes]
    rest = voice.detokenizer.decode([codes[:0]], [state], [True])[0]
    assert_same([*early, rest], voice.whole(codes))


def test_an_empty_utterance_is_silent(voice: Voice) -> None:
    assert len(voice.whole(voice.utterance(0))) == 0


def test_an_ended_stream_takes_no_more(voice: Voice) -> None:
    state = voice.detokenizer.new_state(0)
    voice.detokenizer.decode([voice.utterance(1)], [state], [True])
    with pytest.raises(AssertionError):
        voice.detokenizer.decode([voice.utterance(1)], [state], [False])


def test_the_seed_chooses_the_noise(voice: Voice) -> None:
    codes = voice.utterance(4 * voice.detokenizer.group)
    assert torch.equal(voice.whole(codes, 1), voice.whole(codes, 1))
    assert torch.equal(voice.whole(codes, 1), voice.whole(codes, 2)) != voice.noise
