"""What CosyVoice 2 is given before it speaks: a voice, and the rows of its table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from voxrtc.speechlm.codecs.token_flow import FlowState
from voxrtc.speechlm.cosyvoice2.network import Rows
from voxrtc.speechlm.cosyvoice2.running import Script


@dataclass(frozen=True)
class Voice:
    """Somebody's, as both halves of the model want it."""

    sound: FlowState  # what `TokenFlow.prime` made; shared by all streams with this voice
    text: tuple[int, ...] = ()  # token ids of what was said in the recording; none where nobody knows
    codes: tuple[int, ...] = ()  # and its speech tokens

    def unheard(self) -> Voice:
        """For a language model that is to hear nothing of the recording."""
        return Voice(self.sound)


@dataclass(frozen=True)
class Asked:
    """A piece made ready."""

    rows: Tensor  # [length] of the table
    least: int  # speech tokens before speech may end
    voice: Voice
    script: Script | None = None  # where text and codes take turns; the rows are what comes before the first code


def rows_of(table: Rows, text: list[int], voice: Voice, instruction: list[int]) -> Tensor:
    """The prompt's rows, in one of three modes (`cosyvoice/cli/frontend.py` of the reference).

    With the recording's text the model goes on speaking as it began (zero-shot). Without, or told how to speak, it hears
    nothing of the recording, and only the flow has its voice (cross-lingual, instruct).
    """
    heard = bool(voice.text) and not instruction
    before = list(voice.text) if heard else instruction
    codes = [table.texts + code for code in voice.codes] if heard else []
    return torch.tensor([table.start, *before, *text, table.speak, *codes])
