"""A voice for models that have none of their own: what Lark, the model that comes along, says in `lark.wav`.

Nobody's likeness: Lark's voice was made by a machine (models/lark/NOTICE). A model that imitates recordings imitates this one
until it is given another.
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import soxr
import torch

from voxrtc.speechlm.base import Clip

SAID = "Hello there. This is a clear and friendly voice, and it has time for you."


def lark(sample_rate: int) -> Clip:
    """The recording with its text, at a model's rate."""
    with wave.open(str(Path(__file__).with_name("lark.wav"))) as file:
        rate, pcm = file.getframerate(), file.readframes(file.getnframes())
    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    if rate != sample_rate:
        samples = soxr.resample(samples, rate, sample_rate)
    return Clip(torch.from_numpy(samples), SAID)
