"""HiFT: mel spectrogram and excitation -> 24 kHz (HiFTNet, arXiv 2309.09493, as in CosyVoice 2, Chatterbox and Step-Audio 2).

A HiFi-GAN (arXiv 2010.05646) with Snake activations that stops at 120 columns a frame, where each column is a short spectrum,
of which an inverse transform makes samples (iSTFTNet, arXiv 2203.02395). The excitation (`hift_source`) is added at every
rate, as spectra too. Whole stretches here; `hift_stream` has it stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RATES, KERNELS = (8, 5, 3), (16, 11, 7)  # of the upsamplings
FFT, HOP = 16, 4
BINS = FFT // 2 + 1
SAMPLES = prod(RATES) * HOP  # of a mel frame
SAMPLE_RATE = 24_000
DILATIONS = (1, 3, 5)
SLOPE, LAST_SLOPE = 0.1, 0.01  # of what is negative
LOUDEST, LIMIT = 100.0, 0.99  # magnitude of a bin; a sample
MARGIN = 15  # frames at a side that samples hang on: 14.5, by way of the excitation at the first rate


@dataclass(frozen=True)
class HiftConfig:
    """Shape of the generator."""

    mel: int = 80
    dim: int = 512  # channels before the first upsampling, each of which halves them
    kernels: tuple[int, ...] = (3, 7, 11)  # of the residual blocks at each rate, whose mean counts
    source_kernels: tuple[int, ...] = (7, 7, 11)  # of the excitation's residual block, rate by rate


class Snake(nn.Module):
    """x + sin(a x)^2 / a, with a learned for each channel (arXiv 2006.08195)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[n, channels, columns] -> the same."""
        alpha = self.alpha[:, None]
        return x + (x * alpha).sin().square() / (alpha + 1e-9)


class ResidualBlock(nn.Module):
    """Three times two convolutions, the first of which is dilated."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        pads = [dilation * (kernel - 1) // 2 for dilation in DILATIONS]
        self.wide = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=pad, dilation=dilation)
            for dilation, pad in zip(DILATIONS, pads, strict=True)
        )
        self.narrow = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in DILATIONS)
        self.before, self.between = (nn.ModuleList(Snake(channels) for _ in DILATIONS) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for wide, narrow, before, between in zip(self.wide, self.narrow, self.before, self.between, strict=True):
            x = x + narrow(between(wide(before(x))))
        return x


class Rate(nn.Module):
    """Upsampling number `i`, and what follows at its rate."""

    def __init__(self, config: HiftConfig, i: int) -> None:
        super().__init__()
        channels, below = config.dim >> (i + 1), prod(RATES[i + 1 :])  # columns of the excitation's spectra for one here
        self.up = nn.ConvTranspose1d(2 * channels, channels, KERNELS[i], RATES[i], (KERNELS[i] - RATES[i]) // 2)
        size = (2 * below, below, below // 2) if below > 1 else (1, 1, 0)
        self.source = nn.Conv1d(2 * BINS, channels, *size)
        self.source_block = ResidualBlock(channels, config.source_kernels[i])
        self.blocks = nn.ModuleList(ResidualBlock(channels, kernel) for kernel in config.kernels)
        self.last = below == 1

    def forward(self, x: Tensor, spectra: Tensor) -> Tensor:
        x = self.up(F.leaky_relu(x, SLOPE))
        if self.last:
            x = F.pad(x, (1, 0), mode="reflect")  # a column more, as many as the excitation's spectra
        x = x + self.source_block(self.source(spectra))
        return torch.stack([block(x) for block in self.blocks]).mean(0)


class Hift(nn.Module):
    """The generator."""

    window: Tensor

    def __init__(self, config: HiftConfig) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Conv1d(config.mel, config.dim, 7, padding=3)
        self.rates = nn.ModuleList(Rate(config, i) for i in range(len(RATES)))
        self.leave = nn.Conv1d(config.dim >> len(RATES), 2 * BINS, 7, padding=3)
        self.register_buffer("window", torch.hann_window(FFT, device="cpu"), persistent=False)

    def forward(self, mel: Tensor, source: Tensor) -> Tensor:
        """`mel` [n, frames, mel] and excitation [n, SAMPLES * frames] -> as many samples."""
        spectra = torch.stft(source, FFT, HOP, FFT, self.window, return_complex=True)
        spectra = torch.cat((spectra.real, spectra.imag), 1)
        x = self.enter(mel.transpose(1, 2))
        for rate in self.rates:
            x = rate(x, spectra)
        magnitude, angle = self.leave(F.leaky_relu(x, LAST_SLOPE)).chunk(2, 1)
        return self._samples(magnitude.exp().clamp(max=LOUDEST), angle.sin())

    def _samples(self, magnitude: Tensor, phase: Tensor) -> Tensor:
        """Spectra [n, BINS, columns] -> samples [n, HOP * (columns - 1)]."""
        spectra = torch.complex(magnitude * phase.cos(), magnitude * phase.sin())
        return torch.istft(spectra, FFT, HOP, FFT, self.window).clamp(-LIMIT, LIMIT)


def by_length(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Places of tensors that are not empty, those of equal length together: they can be computed at once."""
    lengths: dict[int, list[int]] = {}
    for place, tensor in enumerate(tensors):
        lengths.setdefault(len(tensor), []).append(place)
    return [places for length, places in lengths.items() if length]
