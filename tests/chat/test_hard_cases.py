"""What microphones bring besides a clear voice in a quiet room: with the real silero and the real Moonshine, on the sound's own
clock.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.e2e.ear import wer
from tests.speech import SAID, recorded
from voxrtc.bench.room import another_voice
from voxrtc.bench.turns import Listener, Models, by_words, listen, sentences, silence
from voxrtc.chat.backchannel import is_backchannel
from voxrtc.chat.turns import TurnSettings
from voxrtc.rtc.microphone import RATE
from voxrtc.rtc.sound import Samples

SEMANTIC = TurnSettings(eagerness="auto")
SERVER_VAD = TurnSettings()
BOTH = pytest.mark.parametrize("settings", [SERVER_VAD, SEMANTIC], ids=["server_vad", "semantic_vad"])


@pytest.fixture(scope="module")
def models() -> Models:
    """Each look takes them 0.1 s of the sound, however busy the machine is."""
    return Models(itertools.count(step=0.1).__next__)


def hear(sound: Samples, models: Models, settings: TurnSettings = SEMANTIC, lead: float = 0.5) -> Listener:
    return listen(sound, settings, models, by_words, lead)


def mixed(*sounds: Samples) -> Samples:
    length = max(map(len, sounds))
    total = sum(np.pad(sound.astype(np.int32), (0, length - len(sound))) for sound in sounds)
    return np.clip(total, -32_768, 32_767).astype(np.int16)


def louder(sound: Samples, decibels: float) -> Samples:
    return (sound * 10 ** (decibels / 20)).clip(-32_768, 32_767).astype(np.int16)


def noise(seconds: float, level: float) -> Samples:
    return np.random.default_rng(0).normal(0, level, round(seconds * RATE)).astype(np.int16)


def music(seconds: float) -> Samples:
    """Chords of plucked strings over a bass, two a second, and a drum between them."""
    chance, total = np.random.default_rng(0), np.zeros(round(seconds * RATE))
    chords = [(220, 277.2, 329.6), (196, 246.9, 293.7), (174.6, 220, 261.6), (196, 246.9, 329.6)]
    time = np.arange(RATE) / RATE
    for beat in range(int(2 * seconds) - 2):
        at = beat * RATE // 2
        for hertz in (*chords[beat // 2 % 4], chords[beat // 2 % 4][0] / 2):
            tone = sum(np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 6))
            total[at : at + RATE] += tone * np.exp(-4 * time)
        total[at + RATE // 4 :][: RATE // 8] += chance.normal(size=RATE // 8) * np.exp(-40 * time[: RATE // 8])
    return (6_000 * total / np.abs(total).max()).astype(np.int16)


@BOTH
def test_a_voice_20_db_quieter_is_understood(models: Models, settings: TurnSettings) -> None:
    heard = hear(louder(recorded("boat"), -20), models, settings)
    assert wer([SAID["boat"]], heard.transcripts) == 0


def test_a_voice_in_noise_is_understood_and_the_noise_is_not(models: Models) -> None:
    """15 dB below the voice, before, during and after it."""
    said = recorded("boat")
    loud = float(np.sqrt(np.square(said.astype(np.float32)).mean()))
    sound = mixed(np.concatenate([silence(2), said, silence(2)]), noise(4 + len(said) / RATE, loud * 10 ** (-15 / 20)))
    heard = hear(sound, models)
    assert wer([SAID["boat"]], [" ".join(heard.transcripts)]) <= 0.1


def test_music_says_nothing(models: Models) -> None:
    """Where it is taken for a voice at all, there are no words in it: it is no turn to answer, nor one that interrupts."""
    assert all(is_backchannel(words) for words in hear(music(10), models).transcripts)


def test_a_voice_over_soft_music_is_understood(models: Models) -> None:
    sound = mixed(louder(music(8), -12), np.concatenate([silence(2), recorded("boat")]))
    heard = hear(sound, models)
    assert wer([SAID["boat"]], [" ".join(words for words in heard.transcripts if words)]) <= 0.2


def test_two_speakers_one_after_the_other_are_both_heard(models: Models) -> None:
    other = (another_voice(recorded("stop").astype(np.float32) / 32768) * 32767).astype(np.int16)
    heard = hear(np.concatenate([recorded("boat"), silence(0.2), other]), models)
    assert wer([f"{SAID['boat']} {SAID['stop']}"], [" ".join(heard.transcripts)]) <= 0.1


def test_somebody_in_the_background_does_not_spoil_the_words(models: Models) -> None:
    """20 dB below, all the time."""
    other = another_voice(np.concatenate([each.sound for each in sentences()[:3]]).astype(np.float32) / 32768)
    background = louder((other * 32767).astype(np.int16), -20)
    heard = hear(mixed(recorded("boat"), background[: len(recorded("boat"))]), models)
    assert wer([SAID["boat"]], [" ".join(heard.transcripts)]) <= 0.2


def monologue(seconds: float) -> tuple[Samples, str]:
    """Sentences with short breaths between them, and their words."""
    parts, words, length = [], [], 0.0
    for each in sentences():
        if length < seconds and len(each.text.split()) > 6:
            parts += [each.sound, silence(0.12)]
            words.append(each.text)
            length += len(each.sound) / RATE + 0.12
    return np.concatenate(parts), " ".join(words)


@pytest.mark.slow
def test_a_monologue_of_30_s_is_one_turn(models: Models) -> None:
    sound, words = monologue(30)
    assert len(sound) / RATE >= 30
    heard = hear(sound, models, TurnSettings(silence=0.8))
    (transcript,) = heard.transcripts
    assert wer([words], [transcript]) <= 0.1


@BOTH
def test_speech_that_began_before_the_connection_was_up_is_understood_from_there_on(
    models: Models, settings: TurnSettings
) -> None:
    """The microphone's first packet is amid a word (pipecat PR 1008): what follows is whole."""
    heard = hear(recorded("boat")[RATE // 4 :], models, settings, lead=0.0)
    (transcript,) = heard.transcripts
    assert transcript.lower().endswith("drifted slowly past the old stone bridge.")


@BOTH
def test_the_first_word_is_not_cut_off(models: Models, settings: TurnSettings) -> None:
    """Speech at once when the call is up (pipecat PR 1008)."""
    heard = hear(recorded("stop"), models, settings, lead=0.0)
    assert heard.transcripts[0].lower().startswith("stop")


@BOTH
def test_who_was_muted_at_first_is_heard(models: Models, settings: TurnSettings) -> None:
    """For 20 s (pipecat 2755)."""
    heard = listen(recorded("boat"), settings, models, by_words, lead=20.0)
    assert wer([SAID["boat"]], heard.transcripts) == 0


def test_pauses_in_a_sentence_do_not_end_the_turn(models: Models) -> None:
    """Of 0.6 s, at words that something must follow: half a second of silence would have ended it."""
    book = next(each for each in sentences() if each.text.startswith("If it rains"))
    sound = book.paused(book.cuts[2], 0.6)
    assert len(hear(sound, models, SERVER_VAD).ends) == 2
    assert len(hear(sound, models).ends) == 1
