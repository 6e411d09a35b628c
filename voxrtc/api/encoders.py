"""Streaming sound formats: PCM16 mono goes in chunk by chunk, bytes that a player can already use come out.

Every encoder has the same verbs, called in this order: `header()` once, `encode(pcm)` for each chunk, `finish()` once;
`close()` at any time. No sample is dropped. WAV, PCM and FLAC give back exactly what went in, and Opus the same sample
count (its pre-skip and last granule say what to cut, RFC 7845); MP3 and AAC add their codecs' delay and padding, which
a stream has no place to declare.
"""

from __future__ import annotations

import struct
import threading
from abc import ABC, abstractmethod
from contextlib import nullcontext
from fractions import Fraction
from typing import ClassVar

import av
import numpy as np
import soxr

from voxrtc.rtc.one_core import one_core


class Encoder(ABC):
    """One utterance in one format. `rate` is that of the PCM handed to `encode`, in Hz."""

    media_type: ClassVar[str]
    heavy: ClassVar[bool]  # worth a thread: it would hold up an event loop

    @abstractmethod
    def __init__(self, rate: int) -> None: ...

    @abstractmethod
    def header(self) -> bytes:
        """What stands before the first sound; may be empty."""

    @abstractmethod
    def encode(self, pcm: bytes) -> bytes:
        """The bytes that are ready after this whole number of PCM16 samples; may be empty."""

    @abstractmethod
    def finish(self) -> bytes:
        """Everything still held back, and what ends the format."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of everything, whether finished or not, also while another thread still encodes."""


class Resampler:
    """PCM16 mono from one rate to another, with its state kept across chunks; equal rates pass through untouched."""

    def __init__(self, source: int, target: int) -> None:
        self._stream = soxr.ResampleStream(source, target, 1, dtype="int16") if source != target else None

    def __call__(self, pcm: bytes, last: bool = False) -> bytes:
        if self._stream is None:
            return pcm
        return self._stream.resample_chunk(np.frombuffer(pcm, "<i2"), last=last).astype("<i2").tobytes()


class Pcm(Encoder):
    """Bare samples at 24 kHz, OpenAI's `pcm`: nothing in it says the rate, so it is always the same."""

    media_type, heavy = "audio/pcm", False
    RATE = 24_000

    def __init__(self, rate: int) -> None:
        self._resample = Resampler(rate, self.RATE)

    def header(self) -> bytes:
        return b""

    def encode(self, pcm: bytes) -> bytes:
        return self._resample(pcm)

    def finish(self) -> bytes:
        return self._resample(b"", last=True)


class Wav(Encoder):
    """RIFF whose sizes are the largest possible, as is usual for a length that is not known yet."""

    media_type, heavy = "audio/wav", False
    UNKNOWN = 0xFFFFFFFF

    def __init__(self, rate: int) -> None:
        self._rate = rate

    def header(self) -> bytes:
        layout = struct.pack("<HHIIHH", 1, 1, self._rate, self._rate * 2, 2, 16)  # PCM, mono, Hz, bytes/s, block, bits
        riff = struct.pack("<4sI4s4sI", b"RIFF", self.UNKNOWN, b"WAVE", b"fmt ", len(layout))
        return riff + layout + struct.pack("<4sI", b"data", self.UNKNOWN)

    def encode(self, pcm: bytes) -> bytes:
        return pcm

    def finish(self) -> bytes:
        return b""


class _Sink:
    """The file that FFmpeg writes to: it cannot seek, so nothing is patched afterwards."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class _Muxed(Encoder):
    """A format that FFmpeg encodes and packs; a subclass names its parts."""

    heavy = True
    container: ClassVar[str]
    codec: ClassVar[str]
    bit_rate: ClassVar[int | None] = None
    rates: ClassVar[frozenset[int] | None] = None  # Hz that the codec takes; None: any
    best_rate: ClassVar[int] = 48_000  # for any other
    packing: ClassVar[dict[str, str]] = {}
    coding: ClassVar[dict[str, str]] = {}

    def __init__(self, rate: int) -> None:
        self._rate = rate if self.rates is None or rate in self.rates else self.best_rate
        self._resample = Resampler(rate, self._rate)
        self._samples = 0
        self._sink = _Sink()
        self._output = av.open(self._sink, "w", format=self.container, options={"flush_packets": "1", **self.packing})
        stream = self._output.add_stream(self.codec, rate=self._rate, layout="mono", options=dict(self.coding))
        assert isinstance(stream, av.AudioStream)
        if self.bit_rate:
            stream.bit_rate = self.bit_rate
        self._stream = stream
        self._in_use = threading.Lock()

    def header(self) -> bytes:
        self._output.start_encoding()
        return self._sink.take()

    def encode(self, pcm: bytes) -> bytes:
        with self._in_use:
            self._push(self._resample(pcm))
            return self._sink.take()

    def finish(self) -> bytes:
        with self._in_use:
            self._push(self._resample(b"", last=True))
            self._output.mux(self._stream.encode(None))
            self._output.close()
            return self._sink.take()

    def close(self) -> None:
        with self._in_use:
            self._output.close()  # garbage collection comes too late: 300 FLAC streams broken off held 200 MB

    def _push(self, pcm: bytes) -> None:
        if not pcm:
            return
        frame = av.AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2")[None], format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = self._rate, Fraction(1, self._rate), self._samples
        with nullcontext() if self._samples else one_core():  # what it has of libav is made with its first frame
            packets = self._stream.encode(frame)
        self._samples += frame.samples
        self._output.mux(packets)


class Opus(_Muxed):
    """Opus in Ogg. A page holds 40 ms, so that sound does not wait long for its page to fill."""

    media_type, container, codec, bit_rate = "audio/ogg", "ogg", "libopus", 48_000
    rates = frozenset({8_000, 12_000, 16_000, 24_000, 48_000})
    packing: ClassVar[dict[str, str]] = {"page_duration": "40000"}
    coding: ClassVar[dict[str, str]] = {"application": "audio"}


class Flac(_Muxed):
    """FLAC without the room for tags that would stand before the first sound."""

    media_type, container, codec = "audio/flac", "flac", "flac"
    packing: ClassVar[dict[str, str]] = {"metadata_header_padding": "1"}


_MPEG_RATES = frozenset({8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000})


class Mp3(_Muxed):
    """MP3 without the Xing frame, which would have to be patched when the length is known."""

    media_type, container, codec, bit_rate, rates = "audio/mpeg", "mp3", "libmp3lame", 64_000, _MPEG_RATES
    packing: ClassVar[dict[str, str]] = {"write_xing": "0"}


class Aac(_Muxed):
    """AAC in ADTS."""

    media_type, container, codec, bit_rate, rates = "audio/aac", "adts", "aac", 64_000, _MPEG_RATES


ENCODERS: dict[str, type[Encoder]] = {"mp3": Mp3, "opus": Opus, "aac": Aac, "flac": Flac, "wav": Wav, "pcm": Pcm}
