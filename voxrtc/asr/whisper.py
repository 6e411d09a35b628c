"""Whisper (OpenAI, MIT) through faster-whisper, which is not among what is installed: see requirements-whisper.txt."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

INSTALL = ".venv/bin/python -m pip install -r requirements-whisper.txt"
SILENCE = 0.6  # of no-speech probability, above which words are not believed


class NotInstalled(Exception):
    """The package is missing. Says what to do."""


def check_installed() -> None:
    """Raise `NotInstalled` if it is."""
    if find_spec("faster_whisper") is None:
        raise NotInstalled(f"Speech to text is set to whisper, but faster-whisper is not installed. To get it: {INSTALL}")


class Whisper:
    """tiny.en takes 0.6 s for 3 s of speech on two cores, four times as long as Moonshine. Use it from one thread at a time."""

    def __init__(self, model: str) -> None:
        """`model` is a size that faster-whisper knows (tiny.en, small, …), fetched from the hub, or a folder. A name that ends
        with .en hears English; others find out which language it is. Raises `NotInstalled`, and what the library raises."""
        check_installed()
        from faster_whisper import WhisperModel

        self._model = WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, pcm: bytes) -> str:
        """The words in PCM16 (little endian, mono, 16 kHz); "" when there are none."""
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
        segments, _ = self._model.transcribe(samples, beam_size=1, condition_on_previous_text=False, without_timestamps=True)
        words = [segment.text.strip() for segment in segments if segment.no_speech_prob < SILENCE]
        return " ".join(filter(None, words))
