"""Lark's voice, recorded: what tests say into a microphone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from voxrtc.rtc.sound import Samples

FOLDER = Path(__file__).parent / "golden" / "speech"
SAID = {
    "boat": "The small boat drifted slowly past the old stone bridge.",
    "stop": "Stop, please. I would like to say something else.",  # with a pause, which may make two turns of it
    "book": "The book that you gave me was better than I expected.",
}


def recorded(name: str) -> Samples:
    """PCM16 at 16 kHz."""
    samples, rate = soundfile.read(FOLDER / f"{name}.flac", dtype="int16")
    assert rate == 16_000
    return np.asarray(samples)
