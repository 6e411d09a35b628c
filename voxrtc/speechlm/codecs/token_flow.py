"""Speech tokens -> mel spectrogram, by the flow of CosyVoice 2, which Chatterbox and others took over. Streamed block by block.

In training a frame saw its own block of 25 tokens and all before it, or the whole utterance (“chunk-aware causal” masks, arXiv
2412.10117, section 2.3). The reference computes everything anew in each call, and without these masks in the last one, so its
sound hangs on how it is called. Here blocks are always of 25 tokens, counted from the prompt's first, and how many of them are
made in a call is the caller's choice alone: the spectrogram is the same for every chunking. For a block its 25 tokens must be
there, and the 3 after them. To its left a block sees the prompt and the two blocks before it, as Step-Audio 2 has it in its
variant of this network; so what a stream remembers is bounded.

A prompt's whole blocks are the same for all streams with that voice, noise included: they are computed once and shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.codecs.blocks import BlockCall, Grid, Memory
from voxrtc.speechlm.codecs.conformer import RATIO, Conformer, ConformerConfig
from voxrtc.speechlm.codecs.estimator import EstimatorConfig
from voxrtc.speechlm.codecs.flow import Solver
from voxrtc.speechlm.codecs.noise import Noise, SeededNoise
from voxrtc.speechlm.codecs.unet import UNetConfig
from voxrtc.speechlm.layers.linear import pack

PASS = 2  # blocks of a stream at a time: bounds memory
ROWS = 400  # of a call, for which its layers are made ready: two streams of two blocks, with and without conditions


@dataclass(frozen=True)
class FlowConfig:
    """Shape of the flow."""

    codes: int = 6561
    speaker: int = 192  # width of a speaker's embedding
    encoder: ConformerConfig = field(default_factory=ConformerConfig)
    estimator: EstimatorConfig = field(default_factory=UNetConfig)
    left: int = 2  # blocks that a block sees to its left, beside the prompt


@dataclass(frozen=True)
class FlowPrompt:
    """Whose voice it is: an embedding, and what was said before, which may be nothing."""

    speaker: Tensor  # [FlowConfig.speaker]
    tokens: Tensor  # [n]
    mel: Tensor  # [RATIO * n, mel]

    def __post_init__(self) -> None:
        assert len(self.mel) == RATIO * len(self.tokens), f"{len(self.mel)} frames of {len(self.tokens)} tokens"

    def last(self, tokens: int) -> FlowPrompt:
        """The same without what was said before the last so many."""
        first = max(0, len(self.tokens) - tokens)
        return FlowPrompt(self.speaker, self.tokens[first:], self.mel[RATIO * first :])


@dataclass
class FlowState:
    """One stream between calls."""

    prompt: FlowPrompt
    noise: Noise
    waiting: Tensor  # tokens that are not in a finished block
    lower: Memory  # of the encoder's layers over tokens
    upper: Memory  # of those over frames
    solver: Memory  # of the estimator, at all steps
    speaker: Tensor  # [mel]
    ended: bool = False

    @property
    def position(self) -> int:
        """Frames that have been, the prompt's too."""
        return self.upper.position

    @property
    def parts(self) -> list[Tensor]:
        """Its prompt, of which `prime` makes the rest, two thousand times as much."""
        return [self.prompt.speaker, self.prompt.tokens, self.prompt.mel]

    @property
    def bytes(self) -> int:
        """Of memory that it takes, those included that it shares."""
        return self.lower.bytes + self.upper.bytes + self.solver.bytes

    def copy(self) -> FlowState:
        """Another that goes on from here."""
        return replace(self, lower=self.lower.copy(), upper=self.upper.copy(), solver=self.solver.copy())


class TokenFlow(nn.Module):
    """Tokens, mel frames and the prompt's are rows."""

    def __init__(self, config: FlowConfig, solver: Solver | None = None) -> None:
        super().__init__()
        self.config, self.solve = config, solver or Solver()
        mel = config.estimator.mel
        self.tokens = nn.Embedding(config.codes, config.encoder.dim)
        self.speaker = nn.Linear(config.speaker, mel)
        self.encoder = Conformer(config.encoder)
        self.leave = nn.Linear(config.encoder.dim, mel)
        self.estimator = config.estimator.build()

    @property
    def longest(self) -> int:
        """Tokens of a block at most."""
        return self.config.encoder.block

    def prepare(self) -> None:
        """After its weights are filled."""
        self.encoder.prepare(self.longest)
        self.estimator.prepare(self.solve.times[:-1])
        for network in (self.encoder, self.estimator):
            pack(network, ROWS)

    def begin(self, prompt: FlowPrompt, noise: Noise) -> FlowState:
        """A stream of which nothing has come, not even its prompt's blocks."""
        kept = -(-len(prompt.tokens) // self.config.encoder.block)
        speaker = self.speaker(F.normalize(prompt.speaker, dim=0))
        return FlowState(prompt, noise, prompt.tokens, Memory(kept), Memory(kept), Memory(kept), speaker)

    def prime(self, prompt: FlowPrompt) -> FlowState:
        """The same after the prompt's whole blocks: what all streams with this voice begin with, each with a copy."""
        state = self.begin(prompt, SeededNoise(0, self.config.estimator.mel))
        self([prompt.tokens[:0]], [state], [False])
        return replace(state, solver=state.solver.halved())

    @torch.inference_mode()
    def forward(self, tokens: Sequence[Tensor], states: Sequence[FlowState], final: Sequence[bool]) -> list[Tensor]:
        """New tokens [n_i] of each stream -> frames [m_i, mel] of the blocks that they complete, and of the rest if `final[i]`.

        States advance in place, at the end: a call that raises has moved none. They must be distinct and not ended.
        """
        assert not any(state.ended for state in states)
        ahead = [state.copy() for state in states]
        mels: list[list[Tensor]] = [
            [state.waiting.new_zeros(0, self.config.estimator.mel, dtype=torch.float32)] for state in states
        ]
        for state, new in zip(ahead, tokens, strict=True):
            state.waiting = torch.cat((state.waiting, new))
        grid = Grid(self.config.encoder.block, self.config.left)
        while counts := self._counts(ahead, final):
            frames = self._frames([ahead[i] for i in counts], list(counts.values()), grid)
            for i, mel in zip(counts, frames, strict=True):
                mels[i].append(mel)
        for state, new, last in zip(states, ahead, final, strict=True):
            vars(state).update(vars(new) | {"ended": last})
        return [torch.cat(parts) for parts in mels]

    def _counts(self, states: Sequence[FlowState], final: Sequence[bool]) -> dict[int, int]:
        """Of the streams that can go on, how many tokens the next pass takes of each."""
        block, lookahead = self.config.encoder.block, self.config.encoder.lookahead
        ready = [
            len(state.waiting) if last else max(0, len(state.waiting) - lookahead) // block * block
            for state, last in zip(states, final, strict=True)
        ]
        return {i: min(count, PASS * block) for i, count in enumerate(ready) if count}

    def _frames(self, states: Sequence[FlowState], counts: Sequence[int], tokens: Grid) -> list[Tensor]:
        """The next tokens of each stream -> its frames, without those of the prompt. Moves the states."""
        begins, doubled = [state.position for state in states], [RATIO * count for count in counts]
        frames, device = Grid(RATIO * tokens.size, tokens.left), self.leave.weight.device
        lower = BlockCall([state.lower for state in states], counts, tokens, device)
        upper = BlockCall([state.upper for state in states], doubled, frames, device)
        solver = BlockCall([state.solver for state in states], doubled, frames, device, copies=2)
        wanted = self._encode(states, lower, upper)
        noise = _batch([state.noise.rows(at, at + n).to(device) for state, at, n in zip(states, begins, doubled, strict=True)])
        prompts = _batch([_span(state.prompt.mel, at, at + n) for state, at, n in zip(states, begins, doubled, strict=True)])
        speakers = torch.stack([state.speaker for state in states])[:, None].expand_as(wanted)
        conditions = torch.cat((wanted, speakers, prompts), -1)
        conditions = torch.cat((conditions, torch.zeros_like(conditions)))
        made = self.solve(noise, lambda x, step: self.estimator(torch.cat((x, conditions), -1), step, solver))
        for call in (lower, upper, solver):
            call.commit()
        for state, count in zip(states, counts, strict=True):
            state.waiting = state.waiting[count:]
        spoken = [max(0, len(state.prompt.mel) - at) for state, at in zip(states, begins, strict=True)]
        return [mel[begin:end] for mel, begin, end in zip(made, spoken, doubled, strict=True)]

    def _encode(self, states: Sequence[FlowState], lower: BlockCall, upper: BlockCall) -> Tensor:
        """Waiting tokens -> what the encoder wants of the frames [streams, rows, mel]."""
        seen = [state.waiting[: lower.rows + self.config.encoder.lookahead] for state in states]
        most = lower.rows + self.config.encoder.lookahead
        tokens = torch.stack([F.pad(part, (0, most - len(part))) for part in seen])
        there = torch.tensor([[i < len(part) for i in range(most)] for part in seen]).to(tokens.device)
        return self.leave(self.encoder(self.tokens(tokens), there, lower, upper))


def _batch(rows: Sequence[Tensor]) -> Tensor:
    """Of different lengths -> [streams, most, width], filled up with zeros."""
    most = max(map(len, rows))
    return torch.stack([F.pad(part, (0, 0, 0, most - len(part))) for part in rows])


def _span(rows: Tensor, begin: int, end: int) -> Tensor:
    """`rows[begin:end]`; zeros where there are none."""
    part = rows[begin:end]
    return F.pad(part, (0, 0, 0, end - begin - len(part)))
