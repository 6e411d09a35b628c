"""A recording of someone's voice: any sound file -> PCM that an engine takes and what was measured of it, or what is wrong."""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
from dataclasses import dataclass

import av
import numpy as np

from voxrtc.api.errors import ApiError
from voxrtc.messages.engine import Reference

SAMPLE_RATE = 24_000
HEARD_AT = 16_000  # Hz: what speech to text takes
SHORTEST, LONGEST = 1.0, 30.0  # seconds
RATES = range(4_000, 384_001)  # Hz: of telephones, with room below, to studios
QUIET = 0.003  # -50 dB: the level of the loudest tenth of a second, below which there is no voice
CLIPPED = 0.01  # share of samples at the limits, above which a voice is distorted
# Demuxers that read sound from the bytes that they are given. FFmpeg has others, which open what a list names: files of this
# machine, or addresses
FORMATS = "wav,w64,aiff,au,caf,mp3,flac,ogg,aac,mov,matroska,amr"
BLOCK = 1200  # samples in which levels are measured: 50 ms
# A voice can be made of these, but not a good one
SHORT, SOFT, NOISY, NARROW = 5.0, -35.0, 15.0, 16_000  # seconds; dB; dB between speech and its pauses; Hz
_DATA_URL = re.compile(r"data:[\w.+/;=-]*,")


class Unfit(ValueError):
    """No voice can be learned from this. Says what to do."""


@dataclass(frozen=True)
class Measured:
    """Of the file: its length in seconds and its sample rate. Of its sound: how loud speech and pauses are, in dB of full
    scale, and the share of samples that are cut off."""

    seconds: float
    sample_rate: int
    level: float
    noise: float
    clipped: float

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What a better recording would have otherwise: codes, and words for people."""
        better, rate = f"5 to {LONGEST:.0f} s", f"{self.sample_rate / 1000:g} kHz"
        told = [
            (self.seconds < SHORT, "short", f"It is only {self.seconds:.1f} s long: {better} give a better voice."),
            (self.level < SOFT, "soft", "It is very soft. Come closer to the microphone."),
            (self.level - self.noise < NOISY, "noisy", "There is much noise in it. Record it in a quieter room."),
            (self.sample_rate < NARROW, "narrow", f"It has {rate} only, which sounds dull: 16 kHz or more is better."),
        ]
        return [(code, words) for holds, code, words in told if holds]


@dataclass(frozen=True)
class Recording:
    """What an engine takes, and what was measured."""

    reference: Reference
    measured: Measured


def read_recording(text: str, said: str = "", field: str = "ref_audio") -> Reference:
    """A sound file in base64, or a `data:` URL of one, with what is `said` in it; a request has it in `field`. Takes a while.
    Raises `ApiError` 400."""
    try:
        if text[:5].lower() in ("http:", "https"):
            raise Unfit("Addresses are not fetched. Please send the file itself, in base64.")
        return read_sound(_bytes(_DATA_URL.sub("", text, count=1) if text.startswith("data:") else text), said).reference
    except Unfit as wrong:
        raise unfit(wrong, field) from None


def read_sound(file: bytes, said: str = "") -> Recording:
    """A sound file, with what is `said` in it. Takes a while. Raises `Unfit`."""
    samples, sample_rate = _decode(file)
    measured = _measure(samples, sample_rate)
    _check(samples, measured)
    return Recording(Reference(pcm=samples.tobytes(), sample_rate=SAMPLE_RATE, text=said), measured)


def read_speech(file: bytes) -> bytes:
    """A sound file -> PCM16 of `HEARD_AT` Hz, to be written down. Takes a while. Raises `Unfit`."""
    return _decode(file, HEARD_AT)[0].tobytes()


def unfit(wrong: Unfit, field: str) -> ApiError:
    """400, for the recording in this field of a request."""
    return ApiError(400, "invalid_recording", f"`{field}`: {wrong}", field)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unfit("It is not base64. Please send the bytes of a sound file (WAV, MP3, FLAC, Ogg, …) in base64.") from None


def _decode(file: bytes, rate: int = SAMPLE_RATE) -> tuple[np.ndarray, int]:
    """The first sound in a file -> int16 [n], mono, at `rate`; and its own rate. Nothing is decoded beyond `LONGEST`.

    Lengths are looked at before resampling, which makes a frame of 20 Hz a thousand times as large."""
    parts: list[np.ndarray] = []
    seconds, sample_rate = 0.0, rate
    resampler = av.AudioResampler("s16", "mono", rate)
    try:
        options = {"format_whitelist": FORMATS, "protocol_whitelist": ""}
        with av.open(io.BytesIO(file), "r", options=options, metadata_errors="replace") as container:
            for frame in container.decode(audio=0):
                sample_rate = frame.sample_rate
                if sample_rate not in RATES:
                    raise Unfit(f"Its sample rate is {sample_rate} Hz. Please send 4 to 384 kHz, best 16 or more.")
                seconds += frame.samples / sample_rate
                if seconds > LONGEST:
                    raise Unfit(f"It is longer than {LONGEST:.0f} s. Please send a part of it.")
                parts += [part.to_ndarray()[0] for part in resampler.resample(frame)]
            parts += [part.to_ndarray()[0] for part in resampler.resample(None)]
    except Unfit:
        raise
    except (av.FFmpegError, IndexError, ValueError):
        if not parts:
            raise Unfit("It is no sound file that can be read. Please send WAV, MP3, FLAC or Ogg.") from None
    return np.concatenate(parts) if parts else np.zeros(0, np.int16), sample_rate


def _measure(samples: np.ndarray, sample_rate: int) -> Measured:
    blocks = samples[: len(samples) // BLOCK * BLOCK].reshape(-1, BLOCK) / 32768
    levels = np.sqrt((blocks**2).mean(1)) if len(blocks) else np.zeros(1)
    clipped = float((np.abs(samples.astype(np.int32)) >= 32_700).mean()) if len(samples) else 0.0
    speech, pauses = np.quantile(levels, [0.9, 0.05])
    return Measured(len(samples) / SAMPLE_RATE, sample_rate, _db(speech), _db(pauses), clipped)


def _db(level: float) -> float:
    return 20 * math.log10(max(level, 1e-5))


def _check(samples: np.ndarray, measured: Measured) -> None:
    """Raise unless a voice can be learned from it."""
    if measured.seconds < SHORTEST:
        raise Unfit(f"It is {measured.seconds:.1f} s long. Please send 5 to {LONGEST:.0f} s of speech.")
    blocks = samples[: len(samples) // 2400 * 2400].reshape(-1, 2400) / 32768
    if np.sqrt((blocks**2).mean(1)).max() < QUIET:
        raise Unfit("It is silent. Please check the microphone, and record it again.")
    if measured.clipped > CLIPPED:
        raise Unfit("It is too loud: its peaks are cut off. Please record it again from further away.")
