"""Encoder and resampler."""

from __future__ import annotations

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rtc.sounds import decode, tone
from voxrtc.rtc.opus import SILENCE, OpusEncoder, Resampler
from voxrtc.rtc.playout import LOOKAHEAD, Frame
from voxrtc.rtc.sound import FRAME, RATE


def frames(sound: np.ndarray) -> list[Frame]:
    return [Frame(1, sound[start : start + FRAME]) for start in range(0, len(sound), FRAME)]


def payloads(sound: np.ndarray) -> list[bytes]:
    made = frames(sound)
    OpusEncoder(1).encode(made)
    return [frame.payload or b"" for frame in made]


def test_a_frame_is_one_packet_of_20_ms() -> None:
    packets = payloads(tone(0.2))
    assert len(packets) == 10
    assert all(len(decode([packet])) == FRAME for packet in packets)
    assert 60 < np.mean([len(packet) for packet in packets]) < 180  # 48 kb/s are 120 bytes


def test_sound_comes_through_with_the_lookahead_as_its_only_delay() -> None:
    sound = tone(0.4)
    heard = decode(payloads(sound))
    steady = slice(FRAME, 15 * FRAME)
    error = heard[LOOKAHEAD:][steady].astype(float) - sound[:-LOOKAHEAD][steady]
    assert np.sqrt(np.mean(error**2)) < 0.05 * np.sqrt(np.mean(sound.astype(float) ** 2))


def test_silence_is_tiny_and_fits_between_any_two_packets() -> None:
    assert len(SILENCE) <= 8
    sound = payloads(tone(0.1))
    heard = decode([SILENCE, *sound, SILENCE, SILENCE, *sound, SILENCE, SILENCE])
    assert not heard[-FRAME:].any()
    assert np.abs(np.diff(heard.astype(int))).max() < 4000


@settings(max_examples=30)
@given(st.sampled_from([8_000, 16_000, 22_050, 24_000, 44_100, 48_000]), st.lists(st.integers(0, 3000), max_size=12))
def test_resampling_is_the_same_for_every_chunking(rate: int, cuts: list[int]) -> None:
    pcm = tone(0.25, rate)
    whole = Resampler()
    expected = np.concatenate([whole(pcm.tobytes(), rate), whole.flush()])
    pieces, parts, start = Resampler(), [], 0
    for cut in [*cuts, len(pcm)]:
        parts.append(pieces(pcm[start : start + cut].tobytes(), rate))
        start += cut
    parts.append(pieces.flush())
    assert np.array_equal(np.concatenate(parts), expected)
    assert abs(len(expected) - len(pcm) * RATE / rate) <= 1


def test_resampling_keeps_little_back() -> None:
    assert len(Resampler()(tone(0.1, 24_000).tobytes(), 24_000)) >= 0.099 * RATE


def test_equal_rates_are_identity() -> None:
    pcm = tone(0.1)
    assert np.array_equal(Resampler()(pcm.tobytes(), RATE), pcm)


def test_nonsense_is_refused() -> None:
    resampler = Resampler()
    with pytest.raises(ValueError, match="PCM16"):
        resampler(b"odd", 24_000)
    resampler(bytes(480), 24_000)
    with pytest.raises(ValueError, match="sample rate"):
        resampler(bytes(480), 16_000)
    assert len(Resampler().flush()) == 0


def test_av_is_new_enough() -> None:
    """Before 17.1 each frame leaks (reference/webrtc.md)."""
    assert tuple(map(int, av.__version__.split(".")[:2])) >= (17, 1)
