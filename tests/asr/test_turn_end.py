"""Whether a speaker has finished: by words, by sound, and by both."""

from __future__ import annotations

import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.asr import cues
from voxrtc.asr.smart_turn import WINDOW, SmartTurn, log_mel, weights
from voxrtc.asr.turn_end import TurnEnd, together
from voxrtc.bench.turns import sentences, silence

FINISHED = [
    "Could you tell me when the next train leaves?",
    "I would like to book a table for two people on Friday evening.",
    "Where are you from?",
    "Yes, I am.",
    "Stop!",
]
UNFINISHED = [
    "Could you tell me when the",
    "My phone stopped working because.",
    "I have had a headache since Monday, and I.",
    "If it rains all night, the river will be too high to.",
    "I would like, um,",
]
PAUSING = ["If it rains all night,", "I want to cook something", "We need to buy some milk…", "Well... "]


@pytest.mark.parametrize("text", FINISHED)
def test_a_sentence_may_be_over(text: str) -> None:
    assert cues.finished(text) == cues.DONE


@pytest.mark.parametrize("text", UNFINISHED)
def test_where_words_must_follow_it_is_not(text: str) -> None:
    assert cues.finished(text) == cues.OPEN


@pytest.mark.parametrize("text", PAUSING)
def test_a_voice_that_stays_up_goes_on(text: str) -> None:
    assert cues.finished(text) < cues.UNSURE


def test_no_words_tell_nothing() -> None:
    assert cues.finished("") == cues.finished(" … ") == cues.UNSURE


@given(st.sampled_from([cues.PAUSE, cues.UNSURE, cues.DONE]), st.floats(0, 1), st.floats(0, 1))
def test_the_more_it_sounds_finished_the_more_it_is(words: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 < together(words, low) <= together(words, high) < 1
    assert together(cues.PAUSE, one) < together(cues.DONE, one)


def test_unfinished_words_outweigh_any_sound() -> None:
    assert together(cues.OPEN, 1.0) == cues.OPEN


def test_sound_is_asked_only_when_words_leave_it_open() -> None:
    asked: list[bytes] = []

    def sound(pcm: bytes) -> float:
        asked.append(pcm)
        return 0.9

    judge = TurnEnd(sound)
    assert judge(b"ab", "Because of the") == cues.OPEN
    assert asked == []
    assert judge(b"ab", "That is all.") == together(cues.DONE, 0.9)
    assert asked == [b"ab"]
    assert TurnEnd(None)(b"ab", "That is all.") == cues.DONE


def test_the_spectrogram_is_whispers() -> None:
    sound = np.random.default_rng(0).normal(0, 1, WINDOW).astype(np.float32)
    sound = (sound - sound.mean()) / sound.std()
    whispers = FeatureExtractor(chunk_length=8)(sound, padding=False)
    ours = log_mel(sound)
    frames = min(ours.shape[1], whispers.shape[1]) - 2  # the last ones reflect, or see the silence behind
    assert ours.shape == (80, WINDOW // 160)
    assert np.abs(ours[:, 2:frames] - whispers[:, 2:frames]).max() < 1e-3


def test_smart_turn_hears_whether_a_sentence_is_over() -> None:
    """By the sound alone, in sentences that are cut between words and in whole ones."""
    path = weights()
    if path is None:
        pytest.skip("smart-turn's weights are missing: make run installs the wheel that they come in")
    judge, tail = SmartTurn(path), silence(0.16)
    said = [each for each in sentences() if each.cuts][::3]
    whole = [judge(np.concatenate([each.sound, tail]).tobytes()) for each in said]
    cut = [judge(np.concatenate([each.sound[: each.cuts[1]], tail]).tobytes()) for each in said]
    assert np.median(whole) > 0.9
    assert np.median(cut) < 0.3
