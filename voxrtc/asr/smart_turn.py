"""smart-turn v3.2 (pipecat-ai; BSD-2-Clause, as are its weights): whether a speaker has finished, by the sound alone. Whisper
tiny's encoder with a classifier behind it, 8 bit, in 23 languages. Its weights come along in a wheel, whose code is not used.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RATE = 16_000
WINDOW = 8 * RATE  # samples: the last of an utterance, or with silence before them
BINS, HOP, BANDS = 400, 160, 80  # Whisper's spectrogram: samples of a frame, and from frame to frame; mel bands
DYNAMIC = 8.0  # powers of ten below the loudest, as far as Whisper looks

Floats = npt.NDArray[np.floating[Any]]


def weights() -> Path | None:
    """Where the wheel has put them; None when it is not installed."""
    package = find_spec("pipecat")
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0]) / "audio" / "turn" / "smart_turn" / "data" / "smart-turn-v3.2-cpu.onnx" if folders else None
    return path if path and path.exists() else None


class SmartTurn:
    """60-130 ms of a core a look, whatever the length. Use it from one thread at a time."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._model = onnxruntime.InferenceSession(str(path), options)

    def __call__(self, pcm: bytes) -> float:
        """How probably the speaker of PCM16 (little endian, mono, 16 kHz), which ends in a short silence, has finished."""
        sound = np.frombuffer(pcm, "<i2")[-WINDOW:].astype(np.float32) / 32768
        sound = np.concatenate([np.zeros(WINDOW - len(sound), np.float32), sound])
        (probability,) = self._model.run(None, {"input_features": log_mel(sound)[None]})
        return float(probability.item())


def log_mel(sound: Floats) -> Floats:
    """Whisper's features (80, frames) of 16 kHz sound of a multiple of `HOP`, brought to unit variance before."""
    sound = (sound - sound.mean()) / np.sqrt(sound.var() + 1e-7)
    padded = np.pad(sound, BINS // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, BINS)[::HOP][:-1]
    window = np.hanning(BINS + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    log = np.log10(np.maximum(MEL @ power.T, 1e-10))
    return ((np.maximum(log, log.max() - DYNAMIC) + 4) / 4).astype(np.float32)


def _mel_filters() -> Floats:
    """Slaney's: triangles (80, 201) of equal area, evenly spaced to 1 kHz and in equal ratios above."""
    corner, ratio = 15.0, np.log(6.4) / 27  # 1 kHz in mel; of two frequencies one mel apart above
    top = corner + np.log(RATE / 2 / 1000) / ratio
    mels = np.linspace(0, top, BANDS + 2)
    edges = np.where(mels < corner, mels * 200 / 3, 1000 * np.exp(ratio * (mels - corner)))
    slopes = edges[:, None] - np.fft.rfftfreq(BINS, 1 / RATE)
    rising = -slopes[:-2] / np.diff(edges)[:-1, None]
    falling = slopes[2:] / np.diff(edges)[1:, None]
    area = 2 / (edges[2:] - edges[:-2])
    return (np.maximum(0, np.minimum(rising, falling)) * area[:, None]).astype(np.float32)


MEL = _mel_filters()
