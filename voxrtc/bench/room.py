"""A room for sound to echo in, and a second voice. Seeded, so that it is the same each time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

from voxrtc.rtc.microphone import RATE

Floats = npt.NDArray[np.float32]

REVERBERATION = 0.3  # seconds to -60 dB: a furnished room
DIRECT = 6.0  # dB by which the straight way is louder than all reflections
FLOOR = 5e-4  # of full scale: the noise of a quiet microphone


def leaked(played: Floats, decibels: float, delay: float, seed: int = 0) -> Floats:
    """What a microphone picks up of sound played (16 kHz) by a loudspeaker in the room, `delay` seconds later and so much
    louder, with its own noise."""
    chance = np.random.default_rng(seed)
    length = round(REVERBERATION * RATE)
    tail = chance.normal(size=length) * 10 ** (-3 * np.arange(length) / length)
    response = tail / np.sqrt((tail**2).sum()) * 10 ** (-DIRECT / 20)
    response[0] = 1.0
    response /= np.sqrt((response**2).sum())
    late = np.concatenate([np.zeros(round(delay * RATE)), played])
    size = 1 << int(np.ceil(np.log2(len(late) + length)))
    echo = np.fft.irfft(np.fft.rfft(late, size) * np.fft.rfft(response, size))[: len(played)]
    return (10 ** (decibels / 20) * echo + FLOOR * chance.normal(size=len(played))).astype(np.float32)


def another_voice(speech: Floats) -> Floats:
    """The same words (16 kHz) in a deeper, slower voice."""
    return np.asarray(soxr.resample(speech, RATE, round(RATE / 0.85)), np.float32)


def as_loud(speech: Floats, as_this: Floats, decibels: float = 0.0) -> Floats:
    """`speech` at the level of another sound, and so much louder."""
    level = np.sqrt((as_this**2).mean() / (speech**2).mean())
    return np.asarray(speech * level * 10 ** (decibels / 20), np.float32)
