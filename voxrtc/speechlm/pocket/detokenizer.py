"""Pocket-TTS's detokenizer: latents -> samples, by Mimi's decoder. Causal, so a frame's sound is ready with the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voxrtc.speechlm.base import Detokenizer, Voice
from voxrtc.speechlm.codecs.lanes import LaneState
from voxrtc.speechlm.codecs.mimi import MimiConfig, MimiDecoder, MimiState
from voxrtc.speechlm.detokenizer import Repeat
from voxrtc.speechlm.layers.linear import SIZES, pack

WARM_UP = SIZES[:8]  # frames of calls
FADE = 1 / 200  # seconds in which an utterance fades in: a decoder that knows no past begins with a click


@dataclass
class PocketState:
    """One stream between calls."""

    mimi: MimiState | LaneState
    begun: bool = False  # its first samples, which are faded in, are out
    ended: bool = False


class PocketDetokenizer(nn.Module, Detokenizer):
    """Latents of `latent` floats, as the language model gives them."""

    fade: Tensor
    lookahead = 0
    min_chunk = 1

    def __init__(self, config: MimiConfig, latent: int, sample_rate: int) -> None:
        super().__init__()
        self.sample_rate, self.samples_per_group = sample_rate, config.samples_per_frame
        self.enter = nn.Linear(latent, config.seanet.dim)
        self.mimi = MimiDecoder(config)
        self.register_buffer("fade", torch.linspace(0, 1, round(FADE * sample_rate)), persistent=False)

    def pack(self) -> None:
        """Make it fast, on a CPU. After its weights are filled."""
        if self.device.type != "cpu":
            return
        pack(self, most=1)
        for frames in WARM_UP:  # each layer meets other numbers of rows, so their kernels are made by working
            self.decode([torch.zeros(frames, self.enter.in_features)], [self.new_state(0)], [True])

    @property
    def device(self) -> torch.device:
        return self.fade.device

    def record(self, streams: int, repeat: Repeat) -> bool:
        self.mimi.record(streams, repeat)
        return True

    def new_state(self, seed: int, voice: Voice = None) -> PocketState:
        """State of an utterance of which nothing has come. It has no noise that `seed` could choose."""
        return PocketState(self.mimi.new_state())

    @torch.inference_mode()
    def decode(self, frames: Sequence[Tensor], states: Sequence[PocketState], final: Sequence[bool]) -> list[Tensor]:
        """New latents [n_i, latent] of each stream -> samples [n_i * samples_per_group].

        `states` must be distinct and not ended.
        """
        assert len(frames) == len(states) == len(final) and not any(state.ended for state in states)
        counts = [len(latents) for latents in frames]
        samples = self.mimi(self.enter(torch.cat(list(frames))), [state.mimi for state in states], counts)
        for state, sound, last in zip(states, samples, final, strict=True):
            state.ended = last
            if len(sound) and not state.begun:
                sound[: len(self.fade)] *= self.fade
                state.begun = True
        return samples
