"""Speech tokens -> sound, by CosyVoice 2's flow and HiFT: the detokenizer of CosyVoice 2, and of those who took it over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import torch
from torch import Tensor

from voxrtc.speechlm.base import Detokenizer
from voxrtc.speechlm.codecs.conformer import RATIO
from voxrtc.speechlm.codecs.hift import SAMPLE_RATE, SAMPLES
from voxrtc.speechlm.codecs.hift_stream import LAG, HiftState, HiftVocoder
from voxrtc.speechlm.codecs.noise import SeededNoise
from voxrtc.speechlm.codecs.token_flow import FlowPrompt, FlowState, TokenFlow

MELS, BREATH = 0, 1  # kinds of noise
LONG = 4  # blocks of a long call, where HiFT's margins count for less


@dataclass
class FlowSoundState:
    """One stream between calls."""

    flow: FlowState
    hift: HiftState
    ended: bool = False


class FlowDetokenizer(Detokenizer):
    """Codes [n, 1], a frame each; a code that stands for no sound makes none.

    A block of the flow is made when all its tokens are there and 3 more, and the last 0.4 s of its sound with the next block.
    """

    sample_rate = SAMPLE_RATE
    samples_per_group = RATIO * SAMPLES

    def __init__(self, flow: TokenFlow, hift: HiftVocoder) -> None:
        self.flow, self.hift = flow, hift
        block = flow.config.encoder.block
        # A block's first token waits for the block's others; those of its end for the whole next one as well.
        self.lag = ceil(LAG / RATIO)
        self.lookahead = block - 1 + flow.config.encoder.lookahead + self.lag
        self.min_chunk, self.long_chunk = block, LONG * block

    @property
    def nobody(self) -> FlowPrompt:
        """The prompt of a voice of which nothing is known."""
        tokens = torch.empty(0, dtype=torch.long, device=self.device)
        mel = self.flow.leave.weight.new_zeros(0, self.flow.config.estimator.mel)
        return FlowPrompt(mel.new_zeros(self.flow.config.speaker), tokens, mel)

    @cached_property
    def _nobody(self) -> FlowState:
        return self.flow.prime(self.nobody)

    @property
    def device(self) -> torch.device:
        return self.flow.leave.weight.device

    def new_state(self, seed: int, voice: FlowState | None = None) -> FlowSoundState:
        """State of a fresh stream with a voice that `TokenFlow.prime` made, or in nobody's."""
        flow = (voice or self._nobody).copy()
        flow.noise = SeededNoise(seed, self.flow.config.estimator.mel, MELS)
        return FlowSoundState(flow, self.hift.begin(SeededNoise(seed, self.hift.excitation.noise_width, BREATH)))

    def before(self, voice: FlowState | None) -> int:
        """Of its prompt, the tokens behind the last whole block."""
        return len(voice.waiting) if voice else 0

    @torch.inference_mode()
    def voice_in(self, parts: list[Tensor]) -> FlowState:
        return self.flow.prime(FlowPrompt(*(part.to(self.device) for part in parts)))

    def ripe(self, frames: int) -> int:
        """Whole blocks, with what must follow them."""
        block = self.min_chunk
        return max(0, frames - self.flow.config.encoder.lookahead) // block * block

    @torch.inference_mode()
    def decode(self, frames: Sequence[Tensor], states: Sequence[FlowSoundState], final: Sequence[bool]) -> list[Tensor]:
        """New codes [n_i, 1] of each stream -> float samples that are ready, all that is left if `final[i]`.

        `states` must be distinct and not ended.
        """
        assert len(frames) == len(states) == len(final) and not any(state.ended for state in states)
        codes = [part.flatten() for part in frames]
        flows = [state.flow.copy() for state in states]
        mels = self.flow([part[part < self.flow.config.codes] for part in codes], flows, final)
        samples = self.hift(mels, [state.hift for state in states], final)
        for state, flow, last in zip(states, flows, final, strict=True):
            state.flow, state.ended = flow, last
        return samples
