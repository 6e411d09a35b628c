"""Moonshine tiny (English, MIT), whose weights come along in its wheel. Decodes a whole utterance at a time."""

from __future__ import annotations

from pathlib import Path

import moonshine_voice
import numpy as np
from moonshine_voice.moonshine_api import ModelArch
from moonshine_voice.transcriber import Transcriber

RATE = 16_000
CALM = [0.0] * (RATE // 2)


class Moonshine:
    """Loads in 0.2 s and takes about 200 MB; 3 s of speech take 0.1 s on two cores. Use it from one thread at a time."""

    def __init__(self) -> None:
        folder = Path(moonshine_voice.__file__).parent / "assets" / "tiny-en"
        self._model = Transcriber(folder, ModelArch.TINY, options={"return_audio_data": "false"})

    def __call__(self, pcm: bytes) -> str:
        """The words in PCM16 (little endian, mono, 16 kHz); "" when there are none."""
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
        lines = self._model.transcribe_without_streaming(samples.tolist(), RATE).lines
        # Its own voice detector remembers the end of one call in the next: after half a word it would take the silence before
        # the next utterance for speech, and hear a "You" in it.
        self._model.transcribe_without_streaming(CALM, RATE)
        return " ".join(line.text.strip() for line in lines if line.text.strip())
