"""Mimi with its quantizer: codes -> samples, streamed exactly, and samples -> codes, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voxrtc.speechlm.base import Detokenizer, Voice
from voxrtc.speechlm.codecs.lanes import LaneState
from voxrtc.speechlm.codecs.mimi import MimiConfig, MimiDecoder, MimiEncoder, MimiState
from voxrtc.speechlm.codecs.quantizer import QuantizerConfig, SplitQuantizer
from voxrtc.speechlm.detokenizer import Repeat
from voxrtc.speechlm.layers.linear import SIZES, pack

WARM_UP = SIZES[:8]  # frames of calls


@dataclass(frozen=True)
class MimiTokensConfig:
    """Shape of all of it."""

    sample_rate: int
    codec: MimiConfig  # of decoder and encoder
    quantizer: QuantizerConfig


@dataclass
class MimiTokensState:
    """One stream between calls."""

    mimi: MimiState | LaneState
    ended: bool = False


class MimiTokens(nn.Module, Detokenizer):
    """Frames of one code of each codebook."""

    lookahead = 0
    min_chunk = 1

    def __init__(self, config: MimiTokensConfig) -> None:
        super().__init__()
        self.config = config
        self.sample_rate, self.samples_per_group = config.sample_rate, config.codec.samples_per_frame
        self.quantizer = SplitQuantizer(config.quantizer)
        self.decoder = MimiDecoder(config.codec)
        self.encoder = MimiEncoder(config.codec, config.quantizer.features)

    def pack(self) -> None:
        """Make decoding fast, on a CPU. After the weights are filled."""
        if self.device.type != "cpu":
            return
        for part in (self.quantizer, self.decoder):
            pack(part, most=1)
        for frames in WARM_UP:  # each layer meets other numbers of rows, so their kernels are made by working
            self.decode([torch.zeros(frames, self.config.quantizer.books, dtype=torch.long)], [self.new_state(0)], [True])

    @property
    def device(self) -> torch.device:
        return self.quantizer.entries.device

    def record(self, streams: int, repeat: Repeat) -> bool:
        self.decoder.record(streams, repeat)
        return True

    def new_state(self, seed: int, voice: Voice = None) -> MimiTokensState:
        """State of an utterance of which nothing has come. It has no noise that `seed` could choose."""
        return MimiTokensState(self.decoder.new_state())

    @torch.inference_mode()
    def decode(self, frames: Sequence[Tensor], states: Sequence[MimiTokensState], final: Sequence[bool]) -> list[Tensor]:
        """New codes [n_i, books] of each stream -> samples [n_i * samples_per_group].

        `states` must be distinct and not ended.
        """
        assert len(frames) == len(states) == len(final) and not any(state.ended for state in states)
        features = self.quantizer.decode(torch.cat(list(frames)))
        samples = self.decoder(features, [state.mimi for state in states], [len(codes) for codes in frames])
        for state, last in zip(states, final, strict=True):
            state.ended = last
        return samples

    @torch.inference_mode()
    def encode(self, samples: Tensor) -> Tensor:
        """A whole recording [n] at `sample_rate` -> codes [ceil(n / samples_per_group), books]; silence fills up the last."""
        return self.quantizer.encode(self.encoder(samples))
