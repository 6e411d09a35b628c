"""Tones, and what a browser would make of our packets."""

from __future__ import annotations

import av
import numpy as np
from av.packet import Packet

from voxrtc.rtc.sound import RATE, Samples

AMPLITUDE = 8_000
STEP = 2 * np.pi * 440 / RATE * AMPLITUDE  # the largest difference between two samples of the tone


def tone(seconds: float, rate: int = RATE, hertz: float = 440) -> Samples:
    """A sine of the amplitude 8,000."""
    return (AMPLITUDE * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.int16)


def decode(packets: list[bytes]) -> Samples:
    """The sound of consecutive Opus packets at 48 kHz, from one decoder."""
    codec = av.CodecContext.create("libopus", "r")
    codec.format, codec.layout, codec.sample_rate = "s16", "mono", RATE
    frames = [frame for packet in packets for frame in codec.decode(Packet(packet))]
    return np.concatenate([frame.to_ndarray()[0].reshape(-1, frame.layout.nb_channels)[:, 0] for frame in frames])


def peak_hertz(sound: Samples) -> float:
    """The loudest frequency."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(np.argmax(spectrum) * RATE / len(sound))


def audible(sound: Samples) -> Samples:
    """Indices of samples that are not (nearly) silent."""
    return np.flatnonzero(np.abs(sound.astype(int)) > 400)
