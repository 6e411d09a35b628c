"""HiFT's excitation: the pitch of each mel frame, and sines of its harmonics with noise (arXiv 1904.12088).

Phase is the integral of pitch, so a stream carries it from call to call (`Pitch`). Between the middles of two frames it grows
at the later one's pitch; before the first middle and behind the last it stands still. In double precision and without its whole
turns: the reference adds up in single precision, by which a voice would go out of tune within minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.hift import SAMPLE_RATE, SAMPLES
from voxrtc.speechlm.codecs.noise import Noise

LAYERS, KERNEL = 5, 3
REACH = LAYERS * (KERNEL // 2)  # frames at a side that a pitch hangs on
HALF = SAMPLES // 2
VOICED = 10.0  # Hz; below there is no voice
LOUD, BREATH = 0.1, 0.003  # of a sine, and of the noise beside it; without a voice the noise is a third of a sine


class PitchPredictor(nn.Module):
    """Mel frames -> Hz."""

    def __init__(self, mel: int, dim: int) -> None:
        super().__init__()
        widths = [mel] + [dim] * LAYERS
        self.layers = nn.ModuleList(nn.Conv1d(widths[i], widths[i + 1], KERNEL, padding=KERNEL // 2) for i in range(LAYERS))
        self.leave = nn.Linear(dim, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """[n, frames, mel] -> [n, frames]."""
        x = mel.transpose(1, 2)
        for layer in self.layers:
            x = F.elu(layer(x))
        return self.leave(x.transpose(1, 2))[..., 0].abs()


@dataclass(frozen=True)
class Pitch:
    """Where a stream's excitation is: after the middle of frame `frames - 1`, whose pitch is known."""

    frames: int
    hertz: Tensor  # [] of that frame
    turns: Tensor  # [harmonics] there, double precision, without the whole ones

    @property
    def samples(self) -> int:
        """Of the excitation that there are: up to the middle of its last frame."""
        return max(0, self.frames * SAMPLES - HALF)


class Excitation(nn.Module):
    """Pitches -> the excitation's samples."""

    harmonics: Tensor

    def __init__(self, harmonics: int) -> None:
        super().__init__()
        self.mix = nn.Linear(harmonics, 1)
        counts = torch.arange(1, harmonics + 1, dtype=torch.float64, device="cpu")
        self.register_buffer("harmonics", counts, persistent=False)

    @property
    def noise_width(self) -> int:
        """Of a frame's row of noise."""
        return SAMPLES * len(self.harmonics)

    def begin(self) -> Pitch:
        """Of a stream of which nothing has come."""
        none = torch.zeros_like(self.harmonics)
        return Pitch(0, none[0].float(), none)

    def forward(self, hertz: Tensor, pitch: Pitch, noise: Noise, final: bool) -> tuple[Tensor, Pitch]:
        """Pitches [n] of the next frames -> the samples that are known with them, and where they end.

        There must be one, now or before.
        """
        each = (hertz.double()[:, None] * self.harmonics / SAMPLE_RATE) % 1  # turns a sample
        middles = torch.cat((pitch.turns[None], pitch.turns + (SAMPLES * each).cumsum(0)))  # of the last frame, and of these
        turns = self._between(middles[:-1], each)
        if not pitch.frames:  # there is no last frame: half of the first one, which stands still
            turns = torch.cat((middles[1:2].expand(HALF, -1), turns[SAMPLES:]))
        if final:
            turns = torch.cat((turns, middles[-1:].expand(HALF, -1)))
        voiced = (torch.cat((pitch.hertz[None], hertz)) > VOICED).repeat_interleave(SAMPLES)
        voiced = voiced[HALF if pitch.frames else SAMPLES :][: len(turns)]
        after = Pitch(pitch.frames + len(hertz), hertz[-1] if len(hertz) else pitch.hertz, middles[-1] % 1)
        return self._samples(turns, voiced, noise, pitch.samples), after

    def _between(self, turns: Tensor, each: Tensor) -> Tensor:
        """Turns at middles, and how many a sample takes up to the next -> turns of all samples between."""
        steps = torch.arange(SAMPLES, device=each.device) + 0.5
        return (turns[:, None] + steps[:, None] * each[:, None]).flatten(0, 1)

    def _samples(self, turns: Tensor, voiced: Tensor, noise: Noise, begin: int) -> Tensor:
        """[n, harmonics] -> [n]; `begin` is the number of the first sample."""
        end = begin + len(turns)
        first = begin // SAMPLES
        rows = noise.rows(first, -(-end // SAMPLES)).to(turns.device).view(-1, len(self.harmonics))
        drawn = rows[begin - first * SAMPLES :][: len(turns)]
        sines = LOUD * (2 * torch.pi * (turns % 1)).float().sin()
        voice = voiced[:, None]
        mixed = torch.where(voice, sines + BREATH * drawn, LOUD / 3 * drawn)
        return self.mix(mixed)[:, 0].tanh()
