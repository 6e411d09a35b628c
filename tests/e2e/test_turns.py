"""Whose turn it is, in a real browser: a backchannel and our own echo do not take it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.e2e import ear
from tests.e2e.desk import Desk
from voxrtc.bench.turns import sentences

pytestmark = pytest.mark.sound

MOUTH = (Path(__file__).parent / "mouth.js").read_text("utf-8")
TEXT = "The river runs past the mill, under the bridge, and on through the quiet fields to the sea."
STARTED = "input_audio_buffer.speech_started"


@pytest.fixture
def mouth(desk: Desk) -> Desk:
    """A page whose microphone is ours, and on."""
    desk.page.evaluate(MOUTH)
    desk.page.evaluate("mouth.open()")
    desk.talk()
    desk.page.wait_for_function("voxrtc.microphone")
    return desk


def received(desk: Desk) -> list[str]:
    """The types of the server's events so far."""
    return list(desk.page.evaluate("wire.received"))


def test_a_backchannel_does_not_stop_us(mouth: Desk) -> None:
    """We fall silent, and go on where we stopped: every word is heard (pipecat 4039)."""
    yeah = next(each for each in sentences() if each.text == "Yeah.")
    mouth.speak(TEXT)
    mouth.await_sound()
    mouth.page.wait_for_timeout(1_500)
    mouth.page.evaluate("pcm => mouth.say(pcm)", base64.b64encode(yeah.sound.tobytes()).decode())
    mouth.page.wait_for_function("wire.received.includes('voxrtc.held')")
    mouth.page.wait_for_function("wire.received.includes('voxrtc.resumed')")
    mouth.await_state("ready")
    mouth.page.wait_for_timeout(400)  # what the jitter buffer still holds
    heard = ear.transcribe(ear.prepare(*mouth.take()))
    assert ear.wer([TEXT], [heard]) <= 0.1, heard
    assert STARTED not in received(mouth)


def test_our_own_voice_from_the_loudspeaker_is_nobodys(mouth: Desk) -> None:
    """As loud as a bad echo canceller leaves it."""
    mouth.page.evaluate("mouth.leak(0.1, -10)")
    heard = ear.transcribe(ear.prepare(*mouth.hear(TEXT)))
    assert ear.wer([TEXT], [heard]) <= 0.1, heard
    assert not {STARTED, "voxrtc.held"} & set(received(mouth))
