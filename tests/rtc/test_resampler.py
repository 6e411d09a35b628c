"""Resampling: no sample is lost, little is kept back, and no thread is started."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rtc.sounds import tone
from voxrtc.rtc.resampler import Resampler
from voxrtc.rtc.sound import RATE


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
    assert len(Resampler()(tone(0.1, 16_000).tobytes(), 16_000)) >= 0.099 * RATE


def test_equal_rates_are_identity() -> None:
    pcm = tone(0.1)
    assert np.array_equal(Resampler()(pcm.tobytes(), RATE), pcm)


def test_nonsense_is_refused() -> None:
    resampler = Resampler()
    with pytest.raises(ValueError, match="PCM16"):
        resampler(b"odd", 16_000)
    resampler(bytes(480), 16_000)
    with pytest.raises(ValueError, match="sample rate"):
        resampler(bytes(480), 24_000)
    assert len(Resampler().flush()) == 0


def test_streams_start_no_threads() -> None:
    """`av.AudioResampler` starts two each, which live as long as it does."""
    threads = Path("/proc/self/task")
    streams = [Resampler() for _ in range(8)]
    before = len(list(threads.iterdir()))
    for stream in streams:
        stream(bytes(480), 16_000)
    assert len(list(threads.iterdir())) == before
