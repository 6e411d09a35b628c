"""Our own voice, back from a loudspeaker: it never interrupts us, and a person still does."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.speech import recorded
from voxrtc.bench.echo import hear
from voxrtc.bench.room import FLOOR, Floats, another_voice, as_loud, leaked
from voxrtc.bench.turns import sentences, silence
from voxrtc.chat.echo import EchoGuard, guarded
from voxrtc.chat.voice import VoiceDetector
from voxrtc.rtc.microphone import BLOCK, RATE
from voxrtc.rtc.sound import FRAME

SPOKEN = 15.0  # seconds
PLACES = (2.0, 4.1, 6.3, 8.2)  # seconds, where a person breaks in


@functools.cache
def ours() -> Floats:
    """What we say, at 16 kHz: sentence after sentence."""
    sound = np.concatenate([sentence.sound for sentence in sentences()])
    return (sound[: round(SPOKEN * RATE)] / np.float32(32768)).astype(np.float32)


def onsets(microphone: Floats, played: Floats, guard: EchoGuard | None) -> list[float]:
    return hear(microphone, played, guard).onsets


@pytest.mark.parametrize("decibels", [-20, -10])
@pytest.mark.parametrize("delay", [0.05, 0.15, 0.3])
def test_our_own_voice_never_interrupts_us(decibels: int, delay: float) -> None:
    assert onsets(leaked(ours(), decibels, delay), ours(), EchoGuard()) == []


@pytest.mark.parametrize("decibels", [-20, -10])
def test_without_the_guard_it_would(decibels: int) -> None:
    assert onsets(leaked(ours(), decibels, 0.15), ours(), None)


@pytest.mark.parametrize("decibels", [-20, -10, 0])
def test_not_even_at_the_first_word_of_a_call(decibels: int) -> None:
    """When nothing is known of the room."""
    for number, sentence in enumerate(sentences()[:12:3]):
        spoken = np.concatenate([silence(1), sentence.sound, silence(0.5)]).astype(np.float32) / 32768
        assert onsets(leaked(spoken, decibels, 0.05 + 0.1 * number, seed=number), spoken, EchoGuard()) == []


def test_who_turns_the_loudspeaker_up_does_not_make_a_person_of_us() -> None:
    microphone = leaked(ours(), -10, 0.15)
    turned = np.interp(np.arange(len(ours())) / RATE, [6.0, 7.0], [-30.0, 0.0])  # dB; by hand
    assert onsets(microphone * 10 ** (turned / 20).astype(np.float32), ours(), EchoGuard()) == []


def person(within: float) -> Floats:
    """Somebody else, who begins at once and is as loud at the microphone as we are at the loudspeaker."""
    speech = as_loud(another_voice(recorded("stop") / np.float32(32768)), ours())
    return speech[np.flatnonzero(np.abs(speech) > 0.1 * np.abs(speech).max())[0] :][: round(within * RATE)]


@pytest.mark.parametrize(("decibels", "within"), [(-20, 0.25), (-10, 0.3)])
def test_a_person_interrupts_over_it(decibels: int, within: float) -> None:
    """Each time, and soon."""
    took = []
    for place in PLACES:
        at, said = round(place * RATE), person(2.0)
        microphone = leaked(ours(), decibels, 0.15)[: at + len(said)]
        microphone[at:] += said[: len(microphone) - at]
        found = onsets(microphone, ours(), EchoGuard())
        assert found and found[0] >= place
        took.append(found[0] - place)
    print(f"double talk, {decibels} dB: heard after {np.round(took, 2)} s")
    assert np.median(took) <= within


def test_a_person_with_headphones_is_heard_as_soon_as_ever() -> None:
    """There is no echo, so nothing that sets in can be one."""
    for place in PLACES:
        at, said = round(place * RATE), person(1.0)
        microphone = FLOOR * np.random.default_rng(at).normal(size=at + len(said)).astype(np.float32)
        microphone[at:] += said
        assert onsets(microphone, ours(), EchoGuard()) == onsets(microphone, ours(), None)


def test_without_sound_of_ours_everybody_is_heard() -> None:
    """Also in our own voice: another one of us, in another room."""
    sound = (leaked(ours(), 0, 0.0)[: 90 * BLOCK] * 32767).astype(np.int16).reshape(-1, BLOCK)
    with_guard, without = guarded(VoiceDetector(), EchoGuard()), VoiceDetector()
    assert [with_guard(block) for block in sound] == [without(block) for block in sound]


def test_an_echo_is_possible_as_long_as_sound_may_be_under_way() -> None:
    guard = EchoGuard()
    assert not guard.possible
    guard.played(np.ones(FRAME, np.int16))
    for _ in range(30):  # 0.6 s
        assert guard.possible
        guard.played(None)
    for _ in range(20):
        guard.played(None)
    assert not guard.possible
    assert not guard.explains()


def test_what_we_said_is_known_however_often_one_asks() -> None:
    """Spectra are made of the latest frames only, and kept."""
    often, seldom, dice = EchoGuard(), EchoGuard(), np.random.default_rng(4)
    for number in range(200):
        frame = None if dice.random() < 0.2 else dice.normal(0, 3_000, FRAME).astype(np.int16)
        for guard in (often, seldom):
            guard.played(frame)
        if dice.random() < 0.5:
            often._spectra_of_ours()
        if number % 97 == 60:
            assert often._spectra_of_ours() == pytest.approx(seldom._spectra_of_ours(), rel=1e-3)
