"""Step-Audio 2's tokens -> sound: of a reply's tokens the codes, which its flow takes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer, FlowSoundState
from voxrtc.speechlm.codecs.hift_stream import HiftVocoder
from voxrtc.speechlm.codecs.token_flow import TokenFlow
from voxrtc.speechlm.stepaudio2.text import CODES


class StepDetokenizer(FlowDetokenizer):
    """Tokens [n, 1] of the model's vocabulary, where codes begin with `first`; others make no sound."""

    def __init__(self, flow: TokenFlow, hift: HiftVocoder, first: int) -> None:
        super().__init__(flow, hift)
        self.first = first

    def decode(self, frames: Sequence[Tensor], states: Sequence[FlowSoundState], final: Sequence[bool]) -> list[Tensor]:
        """New tokens [n_i, 1] of each stream -> samples; see `FlowDetokenizer.decode`."""
        codes = [part.flatten() - self.first for part in frames]
        return super().decode([part[(part >= 0) & (part < CODES)] for part in codes], states, final)
