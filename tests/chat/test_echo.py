"""Our own voice, back from a loudspeaker: it never interrupts us, and a person still does."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.speech import recorded
from voxrtc.bench.echo import hear
from voxrtc.bench.room import Floats, another_voice, as_loud, leaked
from voxrtc.bench.turns import sentences
from voxrtc.chat.echo import EchoGuard, guarded
from voxrtc.chat.voice import VoiceDetector
from voxrtc.rtc.microphone import BLOCK, RATE
from voxrtc.rtc.sound import FRAME

SPOKEN = 15.0  # seconds
PLACES = (2.0, 4.1, 6.3, 8.2, 10.4, 12.5)  # seconds, where a person breaks in


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


@pytest.mark.parametrize(("decibels", "within"), [(-20, 0.25), (-10, 0.3)])
def test_a_person_interrupts_over_it(decibels: int, within: float) -> None:
    """As loud at the microphone as we are at the loudspeaker; each time, and soon."""
    person = as_loud(another_voice(recorded("stop") / np.float32(32768)), ours())
    person = person[np.flatnonzero(np.abs(person) > 0.1 * np.abs(person).max())[0] :]
    took = []
    for place in PLACES:
        at = round(place * RATE)
        microphone = leaked(ours(), decibels, 0.15)[: at + 2 * RATE]
        microphone[at:] += person[: 2 * RATE][: len(microphone) - at]
        found = onsets(microphone, ours(), EchoGuard())
        assert found and found[0] >= place
        took.append(found[0] - place)
    print(f"double talk, {decibels} dB: heard after {np.round(took, 2)} s")
    assert np.median(took) <= within


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
