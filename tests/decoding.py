"""Sound files back to samples, by FFmpeg, for comparison with what went in."""

from __future__ import annotations

import io

import av
import numpy as np
from numpy.typing import NDArray


def decode(data: bytes) -> tuple[NDArray[np.float64], int]:
    """Mono samples on the scale of PCM16, and their rate in Hz. Raises `av.FFmpegError` when it is no sound file."""
    with av.open(io.BytesIO(data)) as source:
        frames = list(source.decode(audio=0))
    samples = np.concatenate([frame.to_ndarray().astype(np.float64).ravel() for frame in frames])
    scale = 32_768 if frames[0].format.name.startswith("flt") else 1
    return samples * scale, frames[0].sample_rate
