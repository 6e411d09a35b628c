"""Whether a block of sound is speech: silero-vad, in the media process, since an interruption cannot wait for another one."""

from __future__ import annotations

import math

from voxrtc.chat.silero import Silero
from voxrtc.rtc.sound import Samples, power

QUIET = 64  # of 32768 (-54 dB): a block that never gets louder is no speech, and costs no look
ABOVE = 4.0  # dB over the noise, from which on a block may be speech
UNLIKELY = 0.1  # probability of what is noise, and teaches its level
LEARNED = 0.1  # of the difference to the next block of noise


class VoiceDetector:
    """For one microphone. A block that may be speech costs 0.08 ms, and one that is as quiet as the noise next to nothing."""

    def __init__(self) -> None:
        self._model: Silero | None = None
        self._noise: float | None = None  # its level in dB of one step, once there was some
        self._probability = 0.0  # of the last block

    def __call__(self, block: Samples) -> float:
        """The probability that the next `rtc.microphone.BLOCK` samples are speech."""
        if max(int(block.max()), -int(block.min())) < QUIET:
            self._probability, self._noise = 0.0, None
            return 0.0
        level = 10 * math.log10(power(block))
        drowned = self._noise is not None and level < self._noise + ABOVE
        self._probability = 0.0 if drowned and self._probability < UNLIKELY else self._look(block)
        if self._probability < UNLIKELY:
            self._noise = level if self._noise is None else min(level, self._noise + LEARNED * (level - self._noise))
        return self._probability

    def _look(self, block: Samples) -> float:
        if self._model is None:
            self._model = Silero()
        return self._model(block)
