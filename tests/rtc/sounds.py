"""Tones, and what a browser would make of our packets."""

from __future__ import annotations

import av
import numpy as np
from aiortc.rtp import RtpPacket
from av.packet import Packet

from voxrtc.rtc.opus import OpusEncoder
from voxrtc.rtc.playout import Frame
from voxrtc.rtc.sound import FRAME, RATE, RTP_RATE, TICKS, Samples

AMPLITUDE = 8_000
STEP = 2 * np.pi * 440 / RATE * AMPLITUDE  # the largest difference between two samples of the tone


def tone(seconds: float, rate: int = RATE, hertz: float = 440) -> Samples:
    """A sine of the amplitude 8,000."""
    return (AMPLITUDE * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.int16)


def decode(packets: list[bytes]) -> Samples:
    """The sound of consecutive Opus packets at `RATE`, from one decoder."""
    codec = av.CodecContext.create("libopus", "r")
    codec.format, codec.layout, codec.sample_rate = "s16", "mono", RTP_RATE
    frames = [frame for packet in packets for frame in codec.decode(Packet(packet))]
    return np.concatenate(
        [frame.to_ndarray()[0].reshape(-1, frame.layout.nb_channels)[:: RTP_RATE // RATE, 0] for frame in frames]
    )


def peak_hertz(sound: Samples, at: int = RATE) -> float:
    """The loudest frequency of sound at a rate of `at`."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(np.argmax(spectrum) * at / len(sound))


def audible(sound: Samples) -> Samples:
    """Indices of samples that are not (nearly) silent."""
    return np.flatnonzero(np.abs(sound.astype(int)) > 400)


def lasts(sound: Samples) -> float:
    """Seconds from the first audible sample to the last, at `RATE`."""
    loud = audible(sound)
    return float(loud[-1] - loud[0]) / RATE if len(loud) else 0.0


def packets(sound: Samples, first: int = 0, timestamp: int = 0) -> list[RtpPacket]:
    """Mono sound at `RATE` as a browser would send it, from this sequence number and timestamp on."""
    encoder, sent = OpusEncoder(0), []
    for number in range(len(sound) // FRAME):
        frame = Frame(0, sound[number * FRAME : (number + 1) * FRAME])
        encoder.encode([frame])
        sequence, time = (first + number) % (1 << 16), (timestamp + number * TICKS) % (1 << 32)
        sent.append(RtpPacket(payload_type=96, sequence_number=sequence, timestamp=time, payload=frame.payload))
    return sent
