"""Encoder and resampler."""

from __future__ import annotations

import os
import sys

import av
import numpy as np
import pytest

from tests.rtc.sounds import decode, tone
from voxrtc.rtc.opus import SILENCE, OpusEncoder
from voxrtc.rtc.playout import LOOKAHEAD, Frame
from voxrtc.rtc.sound import FRAME


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


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads by /proc")
def test_an_encoder_starts_no_threads() -> None:
    """PyAV's has a filter graph, which takes one for each core: of every listener."""
    cores, before = os.sched_getaffinity(0), len(os.listdir("/proc/self/task"))
    encoders = [OpusEncoder(1) for _ in range(4)]
    for encoder in encoders:
        encoder.encode(frames(tone(0.1)))
    assert len(os.listdir("/proc/self/task")) <= before
    assert os.sched_getaffinity(0) == cores


def test_av_is_new_enough() -> None:
    """Before 17.1 each frame leaks (reference/webrtc.md)."""
    assert tuple(map(int, av.__version__.split(".")[:2])) >= (17, 1)
