"""Step-Audio 2's tokens -> sound: of a reply's tokens the codes, which a flow takes like CosyVoice 2's."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from voxrtc.speechlm.base import Detokenizer
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer, FlowSoundState
from voxrtc.speechlm.stepaudio2.text import CODES


class StepDetokenizer(Detokenizer):
    """Tokens [n, 1] of the model's vocabulary; those that are no codes, from `first` on, make no sound."""

    def __init__(self, flow: FlowDetokenizer, first: int) -> None:
        self.flow, self.first = flow, first
        self.sample_rate, self.samples_per_group = flow.sample_rate, flow.samples_per_group
        self.lookahead, self.min_chunk = flow.lookahead, flow.min_chunk

    def new_state(self, seed: int) -> FlowSoundState:
        """State of a fresh stream, in nobody's voice."""
        return self.flow.new_state(seed)

    def decode(self, frames: Sequence[Tensor], states: Sequence[FlowSoundState], final: Sequence[bool]) -> list[Tensor]:
        """New tokens [n_i, 1] of each stream -> samples; see `FlowDetokenizer.decode`."""
        codes = [part.flatten() - self.first for part in frames]
        return self.flow.decode([part[(part >= 0) & (part < CODES)] for part in codes], states, final)
