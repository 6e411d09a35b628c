"""Step-Audio 2 served: `SpeechLM` over a Qwen2 that is given what an `Ear` heard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm import sentences
from voxrtc.speechlm.base import ON_HOST, Batch, CacheShape, Clip, Frames, Placement, Prompt, Said, Sampler, SpeechLM, Utterance
from voxrtc.speechlm.causal_lm import CausalLM
from voxrtc.speechlm.codecs.token_flow import FlowState
from voxrtc.speechlm.stepaudio2.checkpoint import load_networks, load_sound
from voxrtc.speechlm.stepaudio2.detokenizer import StepDetokenizer
from voxrtc.speechlm.stepaudio2.ear import RATE, Ear
from voxrtc.speechlm.stepaudio2.hearing import Hearing, hear
from voxrtc.speechlm.stepaudio2.prompt import Prompter, Written
from voxrtc.speechlm.stepaudio2.tables import StepTables
from voxrtc.speechlm.stepaudio2.text import Writer
from voxrtc.speechlm.stepaudio2.voice import Voices

FRAMES = 2048  # of a reply at most, words and codes: 65 s
PROMPT = 6144  # positions; four minutes that were said take 3000, as many that were answered 7500
TEXT_TOKENS = 256  # of what somebody typed


@dataclass(frozen=True)
class Asked:
    """A reply made ready."""

    written: Written
    voice: FlowState


class StepAudio2(SpeechLM):
    """A conversation, then a token a step: a word's, four of its sound, and so on, until the model says that its turn is over.

    The words that it says are its own tokens, so they are known as it says them (`written`). A text without a conversation is
    taken for what somebody typed.
    """

    hears, hearing_rate = True, RATE
    codebooks, clones = 1, True
    defaults = Sampling(temperature=0.7, top_k=0, top_p=0.9, min_p=0.0, repetition_penalty=1.05)

    def __init__(self, network: CausalLM, ear: Ear, writer: Writer, detokenizer: StepDetokenizer, voices: Voices) -> None:
        self.network, self.ear, self.writer, self.detokenizer = network, ear, writer, detokenizer
        self.device, self.dtype = network.embed.weight.device, network.dtype
        shape = network.decoder.config
        self.cache = CacheShape.of(shape)
        self.frame_rate = detokenizer.sample_rate / detokenizer.samples_per_group
        self.known_voices, self.voices = voices, voices.names
        self._ids = writer.sayable().to(self.device)  # of the rows of `head`
        self._rows = torch.full((network.embed.num_embeddings,), -1, device=self.device)
        self._rows[self._ids] = torch.arange(len(self._ids), device=self.device)
        self._nothing = torch.zeros(0, shape.dim, dtype=self.dtype, device=self.device)
        self._prompter = Prompter(writer, shape.positions - FRAMES, self._nothing)

    @classmethod
    def load(cls, folder: Path, at: Placement = ON_HOST) -> StepAudio2:
        """Read a folder like `stepfun-ai/Step-Audio-2-mini`. Raises `WeightsError`.

        `at.dtype` is that of the language model and of the ear; flow and HiFT stay in float32.
        """
        network, ear, writer = load_networks(folder, PROMPT + FRAMES, at)
        return cls(network, ear, writer, *load_sound(folder, writer.marks.first_code, at.detokenizer))

    def split(self, text: str) -> list[str]:
        return sentences.pieces(text, lambda piece: len(self.writer.ids(piece)) <= TEXT_TOKENS)

    def preprocess(self, utterance: Utterance) -> Prompt:
        written = self._prompter.answer(utterance.conversation or (Said("user", utterance.text),))
        asked = Asked(written, self.known_voices.of(utterance.voice, utterance.imitation))
        return Prompt(len(written.ids), FRAMES, asked)

    def listen(self) -> Hearing:
        return Hearing()

    def hear(self, hearing: Hearing, samples: Tensor, final: bool) -> None:
        hear(self.ear, hearing, samples, final)

    def clone(self, clip: Clip) -> FlowState:
        return self.known_voices.clone(clip)

    def size(self, imitation: FlowState) -> int:
        return imitation.bytes

    def voice_of(self, prompt: Prompt) -> FlowState:
        asked: Asked = prompt.data
        return asked.voice

    def silent(self, frame: Tensor) -> bool:
        return not self.writer.marks.is_code(int(frame[0]))

    def written(self, frames: Tensor) -> str:
        return self.writer.written(frames.flatten().tolist())

    def new_states(self, slots: int) -> StepTables:
        # A further step may be under way when a reply's end is found.
        return StepTables(slots, self.cache.positions + 1, self._nothing)

    def admit(self, states: StepTables, slot: int, prompt: Prompt) -> None:
        states.put(slot, prompt.data.written, self.writer.marks.heard)

    def forward(self, batch: Batch, states: StepTables) -> Tensor:
        inputs = self.network.embed(states.ids[batch.rows, batch.positions].clamp(min=0)).to(self.dtype)
        if not batch.frames_only:
            index = states.index[batch.rows, batch.positions]
            inputs = torch.where(index[:, None] < 0, inputs, states.vectors.rows(batch.rows, index))
        hidden = self.network.decoder(inputs, batch.positions, batch.attention)
        return hidden if batch.decode_only else hidden[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: StepTables, sampler: Sampler) -> Frames:
        # The reference penalises all there has been, the prompt's tokens too.
        before = states.ids[slots]
        row = sampler(self.network.head(hidden), 0, torch.where(before < 0, before, self._rows[before]))
        said = self._ids[row]
        states.add(slots, said)
        marks = self.writer.marks
        return Frames(said[:, None], (said == marks.end) | (said == marks.speak_end))
