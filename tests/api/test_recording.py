"""Recordings of a voice that come with a request for speech."""

from __future__ import annotations

import base64
import io
import struct
from pathlib import Path

import av
import httpx
import numpy as np
import pytest

from tests.fake_engine import ToneTransport
from voxrtc.api.encoders import ENCODERS
from voxrtc.api.errors import ApiError
from voxrtc.api.recording import SAMPLE_RATE, Unfit, read_recording, read_sound, read_speech
from voxrtc.messages.engine import Generate

pytestmark = pytest.mark.anyio


def tone(seconds: float, level: float = 0.3, rate: int = SAMPLE_RATE) -> np.ndarray:
    return np.sin(2 * np.pi * 220 * np.arange(round(seconds * rate)) / rate) * level


def file(samples: np.ndarray, kind: str = "wav", rate: int = SAMPLE_RATE) -> str:
    """A sound file in base64."""
    encoder = ENCODERS[kind](rate)
    pcm = (samples.clip(-1, 1) * 32767).astype("<i2").tobytes()
    return base64.b64encode(encoder.header() + encoder.encode(pcm) + encoder.finish()).decode()


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "opus", "aac"])
def test_any_sound_file_is_read(kind: str) -> None:
    sound = tone(2.0)
    reference = read_recording(file(sound, kind), "la")
    heard = np.frombuffer(reference.pcm, "<i2") / 32767
    assert reference.sample_rate == SAMPLE_RATE and reference.text == "la"
    assert abs(len(heard) - len(sound)) < 0.1 * SAMPLE_RATE
    spectrum = np.abs(np.fft.rfft(heard[: 2 * SAMPLE_RATE]))
    assert abs(spectrum.argmax() * SAMPLE_RATE / len(heard[: 2 * SAMPLE_RATE]) - 220) < 2


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("mp4", "aac"), ("aiff", "pcm_s16be")])
def test_what_browsers_and_telephones_record_is_read(container: str, codec: str) -> None:
    made = io.BytesIO()
    with av.open(made, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48_000, layout="mono")
        samples = (tone(2.0, rate=48_000) * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None], "s16", "mono")
        frame.sample_rate = 48_000
        output.mux([*stream.encode(frame), *stream.encode(None)])
    reference = read_recording(base64.b64encode(made.getvalue()).decode())
    assert abs(len(reference.pcm) / 2 - 2 * SAMPLE_RATE) < 0.1 * SAMPLE_RATE


@pytest.mark.parametrize(
    "list_of", ["ffconcat version 1.0\nfile voice.wav\n", "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nvoice.wav\n"]
)
def test_a_list_of_files_reads_none_of_this_machine(list_of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "voice.wav").write_bytes(base64.b64decode(file(tone(2.0))))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ApiError, match="no sound file"):
        read_recording(base64.b64encode(list_of.encode()).decode())


def adpcm(rate: int, block: int = 65_532) -> bytes:
    """A WAV file of one block with four bits a sample, which FFmpeg decodes to one frame of 131,057 samples."""
    form = struct.pack("<HHIIHHHH", 0x11, 1, rate, rate, block, 4, 2, 2 * (block - 4) + 1 & 0xFFFF)
    chunks = b"".join(kind + struct.pack("<I", len(body)) + body for kind, body in ((b"fmt ", form), (b"data", bytes(block))))
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


@pytest.mark.parametrize(("rate", "told"), [(20, "20 Hz"), (200, "200 Hz"), (4_000, "longer than"), (400_000, "400000 Hz")])
def test_what_a_file_says_of_its_length_makes_nobody_work(rate: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Resampler:
        def __init__(self, *_: object) -> None: ...

        def resample(self, frame: av.AudioFrame) -> list[av.AudioFrame]:
            raise AssertionError(f"{frame.samples} samples of {frame.sample_rate} Hz")

    monkeypatch.setattr(av, "AudioResampler", Resampler)
    for read in (read_sound, read_speech):
        with pytest.raises(Unfit, match=told):
            read(adpcm(rate))


def test_a_data_url_and_another_rate() -> None:
    reference = read_recording("data:audio/wav;base64," + file(tone(2.0, rate=16_000), rate=16_000))
    assert abs(len(reference.pcm) / 2 - 2 * SAMPLE_RATE) < 100


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("https://example.com/voice.wav", "not fetched"),
        ("file:///etc/passwd", "base64"),
        ("no base64!", "base64"),
        ("", "no sound file"),
        (base64.b64encode(b"no sound at all" * 100).decode(), "no sound file"),
        (file(tone(0.4)), "0.4 s"),
        (file(tone(31.0)), "longer than 30 s"),
        (file(tone(2.0, level=0.0005)), "silent"),
        (file(tone(2.0, level=3.0)), "too loud"),
    ],
)
async def test_what_is_wrong_is_told(http: httpx.AsyncClient, tone: ToneTransport, sent: str, told: str) -> None:
    with pytest.raises(ApiError, match=told):
        read_recording(sent)
    answer = await http.post("/v1/audio/speech", json={"input": "one", "ref_audio": sent})
    fault = answer.json()["error"]
    assert answer.status_code == 400 and fault["param"] == "ref_audio" and told in fault["message"]
    assert not tone.requests


async def test_the_engine_gets_the_recording(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    sent = file(np.sin(np.arange(50_000) / 20) * 0.4)
    answer = await http.post(
        "/v1/audio/speech", json={"input": "one", "ref_audio": sent, "ref_text": "hm", "response_format": "pcm"}
    )
    assert answer.status_code == 200
    (asked,) = (request for request in tone.requests if isinstance(request, Generate))
    assert asked.reference and asked.reference.text == "hm" and len(asked.reference.pcm) == 2 * 50_000
