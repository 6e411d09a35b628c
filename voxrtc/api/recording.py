"""A recording of someone's voice, as it comes with a request: any sound file -> PCM that an engine takes, or what is wrong."""

from __future__ import annotations

import base64
import binascii
import io
import re

import av
import numpy as np

from voxrtc.api.errors import ApiError
from voxrtc.messages.engine import Reference

SAMPLE_RATE = 24_000
SHORTEST, LONGEST = 1.0, 30.0  # seconds
QUIET = 0.003  # -50 dB: the level of the loudest tenth of a second, below which there is no voice
CLIPPED = 0.01  # share of samples at the limits, above which a voice is distorted
# Demuxers that read sound from the bytes that they are given. FFmpeg has others, which open what a list names: files of this
# machine, or addresses
FORMATS = "wav,w64,aiff,au,caf,mp3,flac,ogg,aac,mov,matroska,amr"
_DATA_URL = re.compile(r"data:[\w.+/;=-]*,")


def read_recording(text: str, said: str = "") -> Reference:
    """A sound file in base64, or a `data:` URL of one, with what is `said` in it. Takes a while. Raises `ApiError` 400."""
    if text[:5].lower() in ("http:", "https"):
        raise _unfit("Addresses are not fetched. Please send the file itself, in base64.")
    samples = _decode(_bytes(_DATA_URL.sub("", text, count=1) if text.startswith("data:") else text))
    _check(samples)
    return Reference(pcm=samples.tobytes(), sample_rate=SAMPLE_RATE, text=said)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _unfit("It is not base64. Please send the bytes of a sound file (WAV, MP3, FLAC, Ogg, …) in base64.") from None


def _decode(file: bytes) -> np.ndarray:
    """The first sound in a file -> int16 [n], mono. What is longer than `LONGEST` is not decoded to its end."""
    parts: list[np.ndarray] = []
    samples = 0
    resampler = av.AudioResampler("s16", "mono", SAMPLE_RATE)
    try:
        options = {"format_whitelist": FORMATS, "protocol_whitelist": ""}
        with av.open(io.BytesIO(file), "r", options=options, metadata_errors="replace") as container:
            for frame in container.decode(audio=0):
                new = [part.to_ndarray()[0] for part in resampler.resample(frame)]
                parts += new
                samples += sum(map(len, new))
                if samples > LONGEST * SAMPLE_RATE:
                    raise _unfit(f"It is longer than {LONGEST:.0f} s. Please send a part of it.")
            parts += [part.to_ndarray()[0] for part in resampler.resample(None)]
    except (av.FFmpegError, IndexError, ValueError):
        if not parts:
            raise _unfit("It is no sound file that can be read. Please send WAV, MP3, FLAC or Ogg.") from None
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)


def _check(samples: np.ndarray) -> None:
    """Raise unless a voice can be learned from it."""
    if len(samples) < SHORTEST * SAMPLE_RATE:
        raise _unfit(f"It is {len(samples) / SAMPLE_RATE:.1f} s long. Please send 5 to {LONGEST:.0f} s of speech.")
    blocks = samples[: len(samples) // 2400 * 2400].reshape(-1, 2400) / 32768
    if np.sqrt((blocks**2).mean(1)).max() < QUIET:
        raise _unfit("It is silent. Please check the microphone, and record it again.")
    if (np.abs(samples.astype(np.int32)) >= 32_700).mean() > CLIPPED:
        raise _unfit("It is too loud: its peaks are cut off. Please record it again from further away.")


def _unfit(message: str) -> ApiError:
    return ApiError(400, "invalid_recording", f"`ref_audio`: {message}", "ref_audio")
