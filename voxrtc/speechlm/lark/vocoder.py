"""hibari's signal processing (its `dsp.py`, Apache-2.0) in torch, streamed and batched: spectra and pitch -> samples.

A step is 12.5 ms: 300 samples at 24 kHz. The network gives every step five spectra of 601 bins; the step's sound is

    S = exp(lh) e^{i pi tanh(theta)} STFT(pulses(f0)) + exp(ln) Z + exp(lr) e^{i phi}

with Z complex Gaussian noise. Samples are its inverse STFT (Hann, n_fft 1200, hop 300). What spans steps is exact in a
stream: the pulses' phase is carried, the STFT's and the overlap-add's frames slide (`sliding`), and noise depends on a
step's number alone, not on how the utterance was cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.lark.sliding import Window, push

SAMPLE_RATE, HOP, N_FFT = 24_000, 300, 1200
BINS = N_FFT // 2 + 1
HOPS = N_FFT // HOP
VOICED_HZ, HIGHEST_HZ = 40.0, 11_000.0  # below the first there are no pulses; the second bounds their harmonics
MAX_LOG = 7.0  # of a magnitude
NOISE_ROWS = 509  # prime: 6.4 s of noise, far longer than a repetition that can be heard


@dataclass(slots=True)
class VocoderState:
    """One stream between calls. Built by `Vocoder.new_state`."""

    noise_row: int  # of step 0
    steps: int  # whose spectra are done
    waiting: Tensor  # [<= 29] pitch of later steps, Hz: the network lags behind it
    hertz: Tensor  # [] float64: sum of the pitch over all samples so far
    pitch: Window  # [steps]
    pulses: Window  # [steps, HOP]
    frames: Window  # [steps, N_FFT + 1], the last column 1 for a real frame and 0 for padding


class Vocoder(nn.Module):
    """Spectra [n, 5 * BINS] and pitch [n] of each stream -> its samples, two steps behind the spectra."""

    window: Tensor
    noise: Tensor
    slope: Tensor

    def __init__(self) -> None:
        super().__init__()
        hann = torch.hann_window(N_FFT, periodic=True, dtype=torch.float64).float()
        real, imag = torch.randn(2, NOISE_ROWS, BINS, generator=torch.Generator().manual_seed(0))
        self.register_buffer("window", hann, persistent=False)
        self.register_buffer("noise", torch.complex(real, imag), persistent=False)
        slope = ((torch.arange(HOP, dtype=torch.float64) + 0.5) / HOP - 0.5) % 1.0
        self.register_buffer("slope", slope.float(), persistent=False)

    def new_state(self, seed: int) -> VocoderState:
        """State of an utterance of which nothing has come; `seed` chooses its noise."""
        empty = self.window.new_zeros(0)
        return VocoderState(
            noise_row=seed % NOISE_ROWS,
            steps=0,
            waiting=empty,
            hertz=self.window.new_zeros((), dtype=torch.float64),
            pitch=Window(3, empty),
            pulses=Window(HOPS, empty.reshape(0, HOP)),
            frames=Window(HOPS, self.window.new_zeros(1, N_FFT + 1)),
        )

    def forward(
        self,
        spectra: Tensor,
        counts: Sequence[int],
        pitch: Sequence[Tensor],
        states: Sequence[VocoderState],
        final: Sequence[bool],
    ) -> list[Tensor]:
        """Samples of each stream.

        spectra: [sum(counts), 5 * BINS], `counts[i]` steps of stream i; pitch: [m_i] Hz of the steps whose tokens are
        new (these run ahead of the spectra until `final`).
        """
        for state, hertz in zip(states, pitch, strict=True):
            state.waiting = torch.cat((state.waiting, hertz))
        if not len(spectra):  # an FFT of nothing is an error
            return [self.window.new_zeros(0) for _ in states]
        spectrum = _spectrum(spectra, self._source(counts, states, final), self._noise(counts, states))
        frames = torch.fft.irfft(spectrum, N_FFT, dim=1) * self.window
        for state, count in zip(states, counts, strict=True):
            state.steps += count
        return self._overlap_add(frames, counts, states, final)

    def _noise(self, counts: Sequence[int], states: Sequence[VocoderState]) -> Tensor:
        """Noise of the next `counts[i]` steps of each stream, [sum(counts), BINS] complex."""
        starts = [state.noise_row + state.steps for state in states]
        rows = [torch.arange(a, a + n, device=self.noise.device) for a, n in zip(starts, counts, strict=True)]
        return self.noise[torch.cat(rows) % NOISE_ROWS]

    def _source(self, counts: Sequence[int], states: Sequence[VocoderState], final: Sequence[bool]) -> Tensor:
        """STFT of the pulses at the next `counts[i]` steps of each stream, [sum(counts), BINS] complex.

        As torch.stft(center=True, pad_mode="reflect") over the whole utterance, scaled so that a harmonic peaks at 1.
        """
        streams = list(zip(states, counts, final, strict=True))
        windows = push([state.pitch for state in states], [_due_pitch(*stream) for stream in streams])
        new = windows.counts
        hertz = self._interpolate(*windows.gather()[..., None].unbind(1))
        total = torch.cat([_advance(state, part) for state, part in zip(states, hertz.split(new), strict=True)])
        pulses = zip(_pulses(hertz, total).split(new), streams, strict=True)
        padded = [_reflect(rows, state.steps == 0, last) for rows, (state, _, last) in pulses]
        windows = push([state.pulses for state in states], padded)
        return torch.fft.rfft(windows.gather().flatten(1) * (self.window / (N_FFT / 4)), dim=1)

    def _interpolate(self, before: Tensor, here: Tensor, after: Tensor) -> Tensor:
        """Pitch of every sample, [n, HOP] Hz, from that of the steps before, here and after, [n, 1] Hz."""
        (up, down), half = (self.slope, 1 - self.slope), HOP // 2
        first = before * down[:half] + here * up[:half]
        return torch.cat((first, here * down[half:] + after * up[half:]), 1)

    def _overlap_add(
        self, frames: Tensor, counts: Sequence[int], states: Sequence[VocoderState], final: Sequence[bool]
    ) -> list[Tensor]:
        """Samples that no later frame reaches. Step j's samples lie under the frames j - 1 to j + 2."""
        rows = F.pad(frames, (0, 1), value=1.0).split(list(counts))
        padded = [F.pad(part, (0, 0, 0, 2)) if last else part for part, last in zip(rows, final, strict=True)]
        windows = push([state.frames for state in states], padded)
        total, weight = 0, 0
        for k, square in enumerate(self.window.square().view(HOPS, HOP)):
            frame = windows.rows[windows.first + HOPS - 1 - k]
            total = total + frame[:, k * HOP : (k + 1) * HOP]
            weight = weight + frame[:, -1:] * square
        return [samples.flatten() for samples in (total / weight).split(windows.counts)]


def _due_pitch(state: VocoderState, count: int, last: bool) -> Tensor:
    """Takes from `state` the pitch that its next `count` steps need: an STFT frame reaches two steps further.

    The curve is held at both ends of the utterance.
    """
    first = state.steps == 0
    due = len(state.waiting) if last else count + 2 * (first and count > 0)
    pitch, state.waiting = state.waiting[:due], state.waiting[due:]
    return torch.cat((pitch[: int(first)], pitch, pitch[len(pitch) - int(last) :])) if len(pitch) else pitch


def _advance(state: VocoderState, hertz: Tensor) -> Tensor:
    """Sum of the pitch up to each sample, [n, HOP] float64, carried on from the samples before.

    Every term is a float32 of at least 32, so sums below 2**35 (48 minutes at 500 Hz) are exact in float64: the phase
    doesn't depend on where an utterance was cut.
    """
    total = state.hertz + hertz.flatten().clamp(min=VOICED_HZ).cumsum(0, dtype=torch.float64)
    if len(total):
        state.hertz = total[-1]
    return total.view_as(hertz)


def _pulses(hertz: Tensor, total: Tensor) -> Tensor:
    """Pulse train with all harmonics below HIGHEST_HZ at amplitude 1, and 0 where unvoiced; all [n, HOP].

    sum_{h=1..H} cos(h t) = sin((H + 1/2) t) / (2 sin(t/2)) - 1/2
    """
    angle = ((total * (1 / SAMPLE_RATE)).frac() * (2 * math.pi)).float()
    order = (HIGHEST_HZ / hertz.clamp(min=VOICED_HZ)).floor() + 0.5
    below = 2 * (angle * 0.5).sin()
    peak = below.abs() <= 2e-3
    train = torch.where(peak, order, (order * angle).sin() / below.masked_fill(peak, 1.0)) - 0.5
    return train.masked_fill(hertz <= VOICED_HZ, 0.0)


def _reflect(pulses: Tensor, first: bool, last: bool) -> Tensor:
    """`pulses` [n, HOP] with what the STFT sees beyond the utterance's ends: two steps before it, one after."""
    if not len(pulses):
        return pulses
    samples, half = pulses.flatten(), N_FFT // 2
    # The sample furthest out would be number 600, which may be yet to come; the window there is 0.
    left = torch.cat((samples[:1], samples[1:half].flip(0))).view(-1, HOP) if first else pulses[:0]
    right = samples[-HOP - 1 : -1].flip(0).view(1, HOP) if last else pulses[:0]
    return torch.cat((left, pulses, right))


def _spectrum(spectra: Tensor, source: Tensor, noise: Tensor) -> Tensor:
    """The formula at the top: spectra [n, 5 * BINS], source and noise [n, BINS] complex -> [n, BINS] complex."""
    lh, theta, ln, lr, phi = spectra.split(BINS, dim=1)
    harmonic, rough, free = (log.clamp(max=MAX_LOG).exp() for log in (lh, ln, lr))
    return source * _polar(harmonic, math.pi * theta.tanh()) + noise * rough + _polar(free, phi)


def _polar(size: Tensor, angle: Tensor) -> Tensor:
    """`torch.polar`, which takes one number at a time on a CPU."""
    return torch.complex(size * angle.cos(), size * angle.sin())
