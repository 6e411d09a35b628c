from __future__ import annotations

import io
import wave
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.decoding import decode
from voxrtc.api.encoders import ENCODERS

RATE = 24_000


def speechlike(seconds: float, rate: int = RATE) -> NDArray[np.int16]:
    """A glide under noise, swelling and fading: it is like itself in one place only."""
    time = np.arange(int(seconds * rate)) / rate
    noise = soxr.resample(np.random.default_rng(1).normal(size=int(seconds * 8_000) + 8), 8_000, rate)[: len(time)]
    sound = np.sin(2 * np.pi * (200 * time + 300 * time**2)) + 0.3 * noise
    return (6_000 * sound * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time))).astype(np.int16)


def run(name: str, pcm: NDArray[np.int16], cuts: list[int], rate: int = RATE) -> bytes:
    encoder = ENCODERS[name](rate)
    pieces = np.split(pcm, sorted(min(cut, len(pcm)) for cut in cuts))
    return encoder.header() + b"".join(encoder.encode(piece.tobytes()) for piece in pieces) + encoder.finish()


def correlation(heard: NDArray[np.float64], said: NDArray[np.float64]) -> float:
    length = min(len(heard), len(said))
    return float(np.corrcoef(heard[:length], said[:length])[0, 1])


cuts = st.lists(st.integers(0, 40_000), max_size=12)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(["wav", "pcm", "flac"]), length=st.integers(1, 40_000), cuts=cuts)
def test_lossless_formats_give_back_every_sample(name: str, length: int, cuts: list[int]) -> None:
    pcm = speechlike(2.0)[:length]
    data = run(name, pcm, cuts)
    heard = np.frombuffer(data, "<i2") if name == "pcm" else decode(data)[0]
    assert np.array_equal(heard, pcm)


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 40_000), cuts=cuts)
def test_opus_keeps_the_sample_count(length: int, cuts: list[int]) -> None:
    heard, rate = decode(run("opus", speechlike(2.0)[:length], cuts))
    assert rate == 48_000
    assert len(heard) == 2 * length


def test_opus_is_the_same_sound_in_the_same_place() -> None:
    pcm = speechlike(2.0)
    heard, _ = decode(run("opus", pcm, [1_000, 9_600]))
    assert correlation(heard, soxr.resample(pcm.astype(np.float64), RATE, 48_000)) > 0.98


@pytest.mark.parametrize(("name", "most_padding"), [("mp3", 2_400), ("aac", 2_400)])
def test_mpeg_formats_keep_the_whole_sound_and_pad_it(name: str, most_padding: int) -> None:
    pcm = speechlike(2.0).astype(np.float64)
    heard, rate = decode(run(name, speechlike(2.0), [1_000, 9_600]))
    assert rate == RATE
    assert 0 <= len(heard) - len(pcm) <= most_padding
    delay = int(np.argmax(np.correlate(heard, pcm, "valid")))
    assert correlation(heard[delay:], pcm) > 0.95


def test_wav_is_read_by_the_standard_library() -> None:
    with wave.open(io.BytesIO(run("wav", speechlike(0.5), []))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert np.array_equal(np.frombuffer(file.readframes(RATE), "<i2"), speechlike(0.5))


@pytest.mark.parametrize("rate", [16_000, 22_050, 44_100, 48_000])
def test_pcm_is_always_24_khz(rate: int) -> None:
    heard = np.frombuffer(run("pcm", speechlike(2.0, rate), [500, 5_000], rate), "<i2").astype(np.float64)
    assert abs(len(heard) - 2 * RATE) <= 1
    assert correlation(heard, soxr.resample(speechlike(2.0, rate).astype(np.float64), rate, RATE)) > 0.999


@pytest.mark.parametrize("name", ["opus", "mp3", "aac", "flac", "wav"])
@pytest.mark.parametrize("rate", [16_000, 22_050, 44_100])
def test_other_rates_last_as_long(name: str, rate: int) -> None:
    heard, heard_rate = decode(run(name, speechlike(1.0, rate), [700], rate))
    assert -0.001 <= len(heard) / heard_rate - 1.0 < 0.2


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "pcm"])
def test_the_first_quarter_second_can_be_heard_before_the_next_one(name: str) -> None:
    encoder = ENCODERS[name](RATE)
    head = encoder.header() + encoder.encode(speechlike(0.25).tobytes())
    heard, rate = decode(head)
    assert len(heard) / rate >= 0.1


@pytest.mark.parametrize("name", list(ENCODERS))
def test_closing_is_safe_at_any_time_and_twice(name: str) -> None:
    for verbs in ([], ["header"], ["header", "finish"]):
        encoder = ENCODERS[name](RATE)
        for verb in verbs:
            getattr(encoder, verb)()
        encoder.close()
        encoder.close()


@pytest.mark.parametrize("name", ["opus", "mp3", "aac", "flac"])
def test_closing_waits_for_a_thread_that_still_encodes(name: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        for _ in range(20):
            encoder = ENCODERS[name](RATE)
            encoder.header()
            busy = threads.submit(encoder.encode, speechlike(2.0).tobytes())
            while not (busy.running() or busy.done()):
                pass
            encoder.close()
            busy.exception()  # it may have come too late, and says so; it must not crash
