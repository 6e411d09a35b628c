"""Whom Step-Audio 2 sounds like. Its language model knows no voices: the flow goes on in that of a recording."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import soxr
import torch

from voxrtc.speechlm.base import Clip
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer
from voxrtc.speechlm.codecs.token_flow import FlowState
from voxrtc.speechlm.codecs.voice_reader import VoiceReader
from voxrtc.speechlm.weights import WeightsError

OWN = ("female", "male")  # voices, recordings of which lie in the repository of the model's code, not beside its weights


class Voices:
    """The model's own, and those that listeners bring along."""

    def __init__(self, detokenizer: FlowDetokenizer, reader: VoiceReader, recordings: dict[str, Clip]) -> None:
        """The first of `recordings` is the default; without any that is nobody's, until it is set."""
        self._flow, self._rate, self._reader = detokenizer.flow, detokenizer.sample_rate, reader
        self._own = {name: self.clone(clip) for name, clip in recordings.items()}
        self.default = next(iter(self._own.values()), None) or self._flow.prime(detokenizer.nobody)
        self.names = ("default", *self._own)

    def of(self, name: str, imitation: Any) -> FlowState:
        """The voice of this name, or what `clone` made of a listener's recording, if there is one."""
        return self._own.get(name, self.default) if imitation is None else imitation

    def clone(self, clip: Clip) -> FlowState:
        """A recording at the detokenizer's rate -> a voice. Raises `InvalidRequest`."""
        return self._flow.prime(self._reader.read(clip, self._rate))


def own_recordings(folder: Path, sample_rate: int) -> dict[str, Clip]:
    """Those of `OWN` that are in a model's folder, as `assets/default_female.wav`. Raises `WeightsError`."""
    paths = {name: folder / "assets" / f"default_{name}.wav" for name in OWN}
    return {name: Clip(_read(path, sample_rate), "") for name, path in paths.items() if path.exists()}


def _read(path: Path, sample_rate: int) -> torch.Tensor:
    try:
        with wave.open(str(path)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            pcm = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as broken:
        raise WeightsError(f"{path} is no WAV file ({broken}). Fetch it again.") from broken
    if width != 2:
        raise WeightsError(f"{path} has {8 * width} bits a sample; wanted 16.")
    samples = np.frombuffer(pcm, "<i2").reshape(-1, channels).mean(1).astype(np.float32) / 32768
    return torch.from_numpy(soxr.resample(samples, rate, sample_rate))
