"""The flow of Step-Audio 2 (arXiv 2507.16632): CosyVoice 2's, but for its estimator and for how it hears a prompt.

A prompt is one block, however long, all of which sees all of it; a pause stands for what follows it. So it is computed once a
voice whatever is said later, and the first block of what is said begins behind it. The reference keeps of the past the prompt
and 100 frames, as here; but since its estimator's caches have the newest rows first, it takes for the prompt what is not, and
in its encoder nothing is dropped, or, in a later release, the wrong tokens. Here both see the prompt and two blocks.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from voxrtc.speechlm.codecs.blocks import Grid, Memory
from voxrtc.speechlm.codecs.conformer import RATIO
from voxrtc.speechlm.codecs.noise import Noise
from voxrtc.speechlm.codecs.token_flow import FlowPrompt, FlowState, TokenFlow

PAUSE = 4218  # the token of silence
LONGEST = 250  # tokens of a prompt that are heard, the last: what is remembered of a second takes 34 MB


class DiTFlow(TokenFlow):
    """Tokens, mel frames and the prompt's are rows."""

    @property
    def longest(self) -> int:
        return max(LONGEST, self.config.encoder.block)

    @torch.inference_mode()
    def begin(self, prompt: FlowPrompt, noise: Noise) -> FlowState:
        """A stream behind its prompt."""
        state, block = super().begin(prompt.last(LONGEST), noise), self.config.encoder.block
        count = len(state.waiting)
        if count:
            pause = state.waiting.new_full((self.config.encoder.lookahead,), PAUSE)
            state.waiting = torch.cat((state.waiting, pause))
            self._frames([state], [count], Grid(count, 0))
            state.waiting = state.waiting[:0]
            for memory, size in ((state.lower, block), (state.upper, RATIO * block), (state.solver, RATIO * block)):
                _end_prompt(memory, size)
        return state


def _end_prompt(memory: Memory, size: int) -> None:
    """What has been becomes the last rows of the blocks that are kept, so that the next row begins one."""
    memory.past = [replace(part, number=memory.kept - 1) for part in memory.past]
    memory.position = memory.kept * size
