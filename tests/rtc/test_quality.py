"""Error correction and bit rate follow what gets lost; they are not changed for nothing, and nobody hears the change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rtc.sounds import audible, peak_hertz
from tests.rtc.test_track import Heard
from voxrtc.rtc.quality import BAD, CALM, CLEAN, LOSSY, STEPS, Adaptation
from voxrtc.rtc.sound import FRAME, RATE


def after(reports: list[float], begin: float = 0.0, adaptation: Adaptation | None = None) -> Adaptation:
    """A report a second."""
    adaptation = adaptation or Adaptation()
    for second, loss in enumerate(reports):
        adaptation.report(loss, begin + second)
    return adaptation


@pytest.mark.parametrize(
    ("reports", "quality"),
    [([0.0] * 60, CLEAN), ([0.02], CLEAN), ([0.02] * 3, LOSSY), ([0.3] * 4, BAD), ([0.0, 0.01, 0.0] * 20, CLEAN)],
)
def test_what_is_lost_decides(reports: list[float], quality: object) -> None:
    assert after(reports).quality == quality


def test_it_comes_back_slowly_and_one_step_at_a_time() -> None:
    adaptation = after([0.3] * 10)
    seen = [adaptation.report(0.0, 10.0 + second) for second in range(60)]
    assert list(dict.fromkeys(seen)) == [BAD, LOSSY, CLEAN]
    assert seen.index(LOSSY) >= CALM and seen.index(CLEAN) - seen.index(LOSSY) >= CALM


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_whatever_is_reported_changes_are_few(reports: list[float]) -> None:
    """It never comes back sooner than after `CALM`, and never skips a step."""
    adaptation, changed = Adaptation(), 0.0
    before = adaptation.quality
    for second, loss in enumerate(reports):
        now = adaptation.report(loss, float(second))
        step = STEPS.index(now) - STEPS.index(before)
        assert step in (-1, 0, 1)
        assert step >= 0 or second - changed >= CALM
        before, changed = now, second if step else changed


@given(st.floats(0.01, 0.012), st.integers(50, 200))
def test_at_a_border_it_does_not_flutter(loss: float, seconds: int) -> None:
    adaptation = Adaptation()
    seen = [adaptation.report(loss * (second % 2) * 2, float(second)) for second in range(seconds)]
    assert sum(a != b for a, b in itertools.pairwise(seen)) <= 1


def modes(packets: list[bytes]) -> list[bool]:
    """Whether each packet is of the speech mode: hybrid or SILK (RFC 6716, section 3.1)."""
    return [packet[0] >> 3 < 16 for packet in packets if len(packet) > 3]


async def test_a_sentence_changes_at_its_next_pause() -> None:
    """And sounds on as it was written."""
    heard = Heard()
    time = np.arange(2 * RATE) / RATE
    sound = (8_000 * np.sin(2 * np.pi * 440 * time) * ((time < 0.8) | (time >= 1.0))).astype(np.int16)
    utterance = await heard.track.begin("a")
    await utterance.write(sound[:RATE].tobytes(), RATE)
    await heard.pull(10)
    for _ in range(3):
        heard.track.lost(0.05)
    await utterance.write(sound[RATE:].tobytes(), RATE)
    await utterance.finish()
    await heard.pull(95)
    speech = modes(heard.packets)
    first = speech.index(True)
    assert not any(speech[:first]) and all(speech[first : first + 40])
    assert 0.8 * 50 - 2 <= first <= 50
    out = heard.sound
    assert peak_hertz(out[: 40 * FRAME]) == pytest.approx(440, abs=3)
    assert peak_hertz(out[52 * FRAME : 95 * FRAME]) == pytest.approx(440, abs=3)
    assert (audible(out)[-1] - audible(out)[0]) / RATE == pytest.approx(2.0, abs=0.04)


async def test_the_next_sentence_is_encoded_for_it() -> None:
    heard = Heard()
    for _ in range(3):
        heard.track.lost(0.05)
    await heard.say(0.4)
    await heard.pull(25)
    assert all(modes(heard.packets)) and peak_hertz(heard.sound[FRAME : 18 * FRAME]) == pytest.approx(440, abs=3)
