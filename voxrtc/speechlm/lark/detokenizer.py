"""Lark's detokenizer: audio tokens -> samples; hibari's frame decoder in float32, streamed exactly.

A frame of seven tokens (advance, four units, pitch, energy) is two 12.5 ms steps. Nine convolutions of kernel 7 see 27
steps to both sides, the overlap-add two ahead. Each layer keeps its last six inputs and lags three steps behind them;
the zeros that the whole-utterance decoder pads every layer with are pushed through at both ends (`sliding`). Hence the
stream is the same sound as the whole, however it was cut and whatever else was in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.base import HOST, Detokenizer, Voice
from voxrtc.speechlm.lark.sliding import Window, Windows, push
from voxrtc.speechlm.lark.vocoder import BINS, HOP, SAMPLE_RATE, Vocoder, VocoderState
from voxrtc.speechlm.layers.linear import pack
from voxrtc.speechlm.weights import SINGLE, read_safetensors

STEPS = 2  # of 12.5 ms, in a frame
UNITS = 4
FEATURES, DIM, HIDDEN = 130, 256, 768  # 128 of text, then pitch and energy
KERNEL, BLOCKS = 7, 8
PASS = 256  # steps that the network works on at a time
MOST_ROWS = 512  # of a pass that is not out of the ordinary
PAD = KERNEL // 2
SCALE = 1 / 5  # of pitch and energy in the features


T = TypeVar("T")


class Codebooks(nn.Module):
    """Tokens -> features. Names and shapes are the weights file's."""

    def __init__(self, units: int = 512, pitches: int = 512, energies: int = 256) -> None:
        super().__init__()
        width = FEATURES - 2
        self.unit = nn.ParameterList(torch.zeros(units, width) for _ in range(UNITS))
        self.unit_mean = nn.Parameter(torch.zeros(width))
        self.f0 = nn.Parameter(torch.zeros(pitches, STEPS))  # log1p(Hz)
        self.energy = nn.Parameter(torch.zeros(energies, STEPS))

    def forward(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """codes [n, 7] -> features [2n, FEATURES] and pitch [2n] Hz."""
        _, *units, pitch, energy = codes.long().unbind(1)
        text = self.unit_mean + sum(book[code] for book, code in zip(self.unit, units, strict=True))
        melody = torch.stack((self.f0[pitch], self.energy[energy]), dim=2) * SCALE  # [n, STEPS, 2]
        features = torch.cat((text[:, None].expand(-1, STEPS, -1), melody), dim=2)
        # From the whole codebook's table: a code's pitch must be the same to the bit in every batch, as phase adds up.
        return features.flatten(0, 1), self.f0.expm1()[pitch].flatten()


class Block(nn.Module):
    """A ConvNeXt block: windows of KERNEL rows -> one row each, the middle one plus the update."""

    def __init__(self) -> None:
        super().__init__()
        self.dw = nn.Conv1d(DIM, DIM, KERNEL, groups=DIM)
        self.norm = nn.LayerNorm(DIM)
        self.pw1 = nn.Linear(DIM, HIDDEN)
        self.pw2 = nn.Linear(HIDDEN, DIM)
        self.gamma = nn.Parameter(torch.ones(DIM))

    def forward(self, windows: Windows) -> Tensor:
        """n windows of [KERNEL, DIM] -> [n, DIM].

        The depthwise sum runs over all rows at once, also where one stream's end meets the next one's beginning: leaving
        those out afterwards costs less than laying out every window's seven rows.
        """
        rows, mixed = windows.rows, self.dw.bias
        count = max(0, len(rows) - KERNEL + 1)
        for k, tap in enumerate(self.dw.weight[:, 0].unbind(1)):
            mixed = torch.addcmul(mixed, rows[k : k + count], tap)
        update = self.pw2(F.gelu(self.pw1(self.norm(mixed[windows.first]))))
        return torch.addcmul(rows[windows.first + PAD], self.gamma, update)


class Decoder(nn.Module):
    """Features -> five spectra of BINS a step, KERNEL - 1 = 6 rows kept in each of 9 windows a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Conv1d(FEATURES, DIM, KERNEL)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, 5 * BINS)

    def new_windows(self) -> list[Window]:
        """The windows of a stream of which nothing has come: only the zeros before it."""
        widths = [FEATURES] + [DIM] * BLOCKS
        return [Window(KERNEL, self.norm.weight.new_zeros(PAD, width)) for width in widths]

    def forward(
        self, features: Sequence[Tensor], windows: Sequence[list[Window]], final: Sequence[bool]
    ) -> tuple[Tensor, tuple[int, ...]]:
        """New features [n_i, FEATURES] of each stream -> spectra [sum(m), 5 * BINS] that are complete, and m_i."""
        parts = features
        for layer, layer_windows in zip((self._enter, *self.blocks), zip(*windows, strict=True), strict=True):
            padded = [F.pad(rows, (0, 0, 0, PAD)) if last else rows for rows, last in zip(parts, final, strict=True)]
            complete = push(layer_windows, padded)
            hidden = layer(complete)
            parts = hidden.split(complete.counts)
        return self.head(self.norm(hidden)), complete.counts

    def serve(self) -> None:
        """Lay out the weights for speed, once they are loaded."""
        self.entrance = nn.Linear(KERNEL * FEATURES, DIM)
        self.entrance.weight = nn.Parameter(self.conv_in.weight.transpose(1, 2).flatten(1))
        self.entrance.bias = self.conv_in.bias
        pack(self, MOST_ROWS)

    def _enter(self, windows: Windows) -> Tensor:
        """n windows of [KERNEL, FEATURES] -> [n, DIM]."""
        return self.entrance(windows.gather().flatten(1))


@dataclass(slots=True)
class LarkState:
    """One stream between calls, about 0.1 MB."""

    layers: list[Window]
    vocoder: VocoderState
    ended: bool = False


class LarkDetokenizer(nn.Module, Detokenizer):
    """`codebooks.*` and `decoder.*` of the weights file, and the vocoder, which has no weights."""

    sample_rate = SAMPLE_RATE
    samples_per_group = STEPS * HOP
    lookahead = 15  # frames; in truth 29 steps: 27 for the convolutions, 2 for the overlap-add
    min_chunk = 4

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device = HOST) -> None:
        """`tensors`: the file's tensors, of which those named `codebooks.*` and `decoder.*` are read."""
        super().__init__()
        self.codebooks, self.decoder, self.vocoder = Codebooks(), Decoder(), Vocoder()
        self.load_state_dict({name: tensors[name] for name in self.state_dict()})
        self.requires_grad_(False)
        self.to(device)
        self.decoder.serve()

    @classmethod
    def load(cls, folder: Path, device: torch.device = HOST) -> LarkDetokenizer:
        """Read its part of a model's folder. Raises `speechlm.weights.WeightsError`."""
        return cls(read_safetensors(folder / SINGLE), device)

    @property
    def device(self) -> torch.device:
        return self.codebooks.f0.device

    def new_state(self, seed: int, voice: Voice = None) -> LarkState:
        """State of an utterance of which nothing has come. `seed` chooses the noise in its breathy sounds."""
        return LarkState(self.decoder.new_windows(), self.vocoder.new_state(seed))

    @torch.inference_mode()
    def decode(self, frames: Sequence[Tensor], states: Sequence[LarkState], final: Sequence[bool]) -> list[Tensor]:
        """New frames [n_i, 7] of each stream -> float32 samples that they complete; all that is left if `final[i]`.

        After n frames a stream has given 600 n - 8700 samples (or none, if that is below zero), after the final call
        600 n. Updates `states`, which must be distinct and not ended.
        """
        assert len(frames) == len(states) == len(final) and not any(state.ended for state in states)
        features, pitch = self.codebooks(torch.cat(list(frames)))  # what can be wrong with frames is found here
        steps = [STEPS * len(codes) for codes in frames]
        streams = list(zip(features.split(steps), pitch.split(steps), states, final, strict=True))
        return [samples for few in _passes(streams, steps) for samples in self._decode(*zip(*few, strict=True))]

    def _decode(
        self, features: Sequence[Tensor], pitch: Sequence[Tensor], states: Sequence[LarkState], final: Sequence[bool]
    ) -> list[Tensor]:
        spectra, counts = self.decoder(features, [state.layers for state in states], final)
        for state, last in zip(states, final, strict=True):
            state.ended = last
        return self.vocoder(spectra, counts, pitch, [state.vocoder for state in states], final)


def _passes(streams: Sequence[T], steps: Sequence[int]) -> Iterator[list[T]]:
    """Streams in parts of about `PASS` steps: more at a time is no faster, and takes memory that stays taken."""
    part: list[T] = []
    count = 0
    for stream, more in zip(streams, steps, strict=True):
        if part and count + more > PASS:
            yield part
            part, count = [], 0
        part.append(stream)
        count += more
    yield part
