"""Spectra by which models hear recordings: Kaldi's filter banks, Whisper's mel spectrogram, and the one that vocoders get."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

TINY = 1.1920928955078125e-07  # Kaldi's floor, the float32 epsilon


def kaldi_fbank(samples: Tensor, bins: int = 80, sample_rate: int = 16_000) -> Tensor:
    """Log energies of mel bands [frames, bins] of samples [n]: 25 ms every 10 ms, as `compute-fbank-feats` without dither.

    Each frame loses its mean and is pre-emphasised by itself, and has Povey's window.
    """
    size, hop = sample_rate // 40, sample_rate // 100
    if len(samples) < size:
        return samples.new_zeros(0, bins)
    frames = samples.unfold(0, size, hop)
    frames = frames - frames.mean(1, keepdim=True)
    before = torch.cat((frames[:, :1], frames[:, :-1]), 1)
    window = torch.hann_window(size, periodic=False).pow(0.85).to(samples.device)
    fft = 1 << (size - 1).bit_length()
    power = torch.fft.rfft((frames - 0.97 * before) * window, fft).abs().square()
    return (power[:, :-1] @ _kaldi_bands(bins, fft, sample_rate).to(samples.device)).clamp(min=TINY).log()


def whisper_mel(samples: Tensor, bins: int = 128) -> Tensor:
    """Log mel spectrogram [bins, frames] of 16 kHz samples [n], every 10 ms (`whisper/audio.py` of OpenAI's repository)."""
    window = torch.hann_window(400).to(samples.device)
    power = torch.stft(samples, 400, 160, window=window, return_complex=True)[:, :-1].abs().square()
    level = (mel_bands(bins, 400, 16_000).to(samples.device) @ power).clamp(min=1e-10).log10()
    return (torch.maximum(level, level.max() - 8) + 4) / 4


def vocoder_mel(samples: Tensor) -> Tensor:
    """Log mel spectrogram [frames, 80] of 24 kHz samples [n], every 20 ms: what HiFT makes sound of (Matcha-TTS's)."""
    size, hop, window = 1920, 480, torch.hann_window(1920).to(samples.device)
    padded = F.pad(samples[None, None], ((size - hop) // 2,) * 2, mode="reflect")[0, 0]
    spectra = torch.stft(padded, size, hop, window=window, center=False, return_complex=True)
    level = (spectra.real.square() + spectra.imag.square() + 1e-9).sqrt()
    return (mel_bands(80, size, 24_000, 8000.0).to(samples.device) @ level).clamp(min=1e-5).log().T


@lru_cache(8)
def mel_bands(bins: int, fft: int, sample_rate: int, highest: float | None = None) -> Tensor:
    """Triangular bands [bins, fft / 2 + 1] of equal area on Slaney's scale: linear to 1 kHz, then logarithmic."""
    edges = _slaney_hertz(torch.linspace(0, _slaney_mel(highest or sample_rate / 2), bins + 2, dtype=torch.float64))
    hertz = torch.arange(fft // 2 + 1, dtype=torch.float64) * sample_rate / fft
    rising = (hertz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - hertz) / (edges[2:] - edges[1:-1])[:, None]
    return (torch.minimum(rising, falling).clamp(min=0) * (2 / (edges[2:] - edges[:-2]))[:, None]).float()


def _slaney_mel(hertz: float) -> float:
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)


def _slaney_hertz(mel: Tensor) -> Tensor:
    return torch.where(mel < 15, mel * 200 / 3, 1000 * torch.exp((mel - 15) * (math.log(6.4) / 27)))


@lru_cache(2)
def _kaldi_bands(bins: int, fft: int, sample_rate: int, lowest: float = 20.0) -> Tensor:
    """Bands [fft / 2, bins], triangular on the mel scale of 1127 ln(1 + f / 700)."""
    ends = [1127 * math.log1p(hertz / 700) for hertz in (lowest, sample_rate / 2)]
    edges = torch.linspace(*ends, bins + 2, dtype=torch.float64)
    mel = 1127 * torch.log1p(torch.arange(fft // 2, dtype=torch.float64) * sample_rate / fft / 700)[:, None]
    rising, falling = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()
