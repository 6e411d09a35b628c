"""CSM served: the four verbs of `SpeechLM` over `network.Network`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm import sentences
from voxrtc.speechlm.base import (
    HOST,
    ON_HOST,
    Batch,
    CacheShape,
    Clip,
    Detokenizer,
    Frames,
    InvalidRequest,
    Placement,
    Prompt,
    Sampler,
    SpeechLM,
    Turn,
    Utterance,
    Voice,
)
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens, MimiTokensState
from voxrtc.speechlm.csm import checkpoint
from voxrtc.speechlm.csm.network import Network
from voxrtc.speechlm.csm.prompt import Writer, Written, join
from voxrtc.speechlm.detokenizer import Repeat

TEXT_TOKENS = 64  # of a piece: 15 to 20 s of English
FRAMES = 375  # of a piece at most: 30 s. A model that does not find its end is stopped in proportion to the text
FRAMES_AT_LEAST, FRAMES_A_TOKEN = 50, 6
ROOM = FRAMES + 1  # a further step may be under way when the limit is found
OWN = TEXT_TOKENS + 16  # positions of a piece's own text at most
LONGEST_CLIP = 60  # seconds of a recording


@dataclass
class CsmStates:
    """Tables with a row a slot of the engine."""

    text: Tensor  # [slots, positions] ids of the prompt; -1 where there is a frame
    codes: Tensor  # [slots, positions, books] of the prompt's frames
    length: Tensor  # [slots] of the prompt
    frame: Tensor  # [slots, books] the latest
    made: Tensor  # [slots] frames so far
    history: Tensor  # [slots, ROOM, books] codes so far; -1 where there is none


class Csm(SpeechLM):
    """A conversation so far and a text, then a frame a step until all its codes are 0 or the limit of its length is reached.

    A voice is a speaker of the conversation. What a speaker sounds like is what was heard of him: without a recording to
    imitate the model makes up someone, and goes on as him in the later pieces of a text, since it is given the earlier ones.
    """

    remembers = clones = True
    defaults = Sampling(temperature=0.9, top_k=50, top_p=1.0, min_p=0.0, repetition_penalty=1.0)

    def __init__(self, network: Network, writer: Writer, codec: MimiTokens, voices: Sequence[str]) -> None:
        self.network, self.writer, self.codec = network, writer, codec
        self.detokenizer = CsmDetokenizer(codec)
        self.codebooks = network.config.books
        self.frame_rate = codec.sample_rate / codec.samples_per_group
        self.voices = ("default", *voices)  # the first of them, for a listener who asked for none
        self.device, self.dtype = network.starts.device, network.dtype
        shape = network.config.backbone
        self.cache = CacheShape.of(shape)
        self._memory = shape.positions - OWN - FRAMES  # positions that may stand before a piece's own text

    @classmethod
    def load(cls, folder: Path, voices: Sequence[str], at: Placement = ON_HOST) -> Csm:
        """Read a folder like `sesame/csm-1b`; see `checkpoint.load`.

        `at.dtype` is that of the two decoders; Mimi stays in float32. Raises `WeightsError`.
        """
        network, codec = checkpoint.load(folder, at)
        return cls(network, Writer.load(folder, network.config.books, network.config.texts), codec, voices)

    def split(self, text: str) -> list[str]:
        return sentences.pieces(text, lambda piece: self.writer.count(piece) <= TEXT_TOKENS)

    def preprocess(self, utterance: Utterance) -> Prompt:
        speaker = self.voices[1] if utterance.voice == "default" else utterance.voice
        own = self.writer.text(utterance.text, speaker)
        assert len(own) <= OWN, f"{len(own)} positions in a piece"
        frames = min(FRAMES, FRAMES_AT_LEAST + FRAMES_A_TOKEN * len(own))
        whole = join([*self._context(utterance, speaker, self.cache.positions - frames - len(own)), own])
        return Prompt(length=len(whole), max_frames=frames, data=whole)

    def _context(self, utterance: Utterance, speaker: str, room: int) -> list[Written]:
        """The recording, and of the turns since the latest that fit into `room` positions with it."""
        first = [] if utterance.imitation is None else [self.writer.said(utterance.imitation, speaker)]
        room, kept = room - sum(map(len, first)), []
        for turn in reversed(utterance.before):
            written = self.writer.said(turn, speaker)
            room -= len(written)
            if room < 0:
                break
            kept.append(written)
        return [*first, *reversed(kept)]

    def clone(self, clip: Clip) -> Turn:
        """A recording as the first turn of the conversation; its text must be known."""
        seconds = len(clip.samples) / self.codec.sample_rate
        if not any(map(str.isalnum, clip.text)):
            raise InvalidRequest("This model needs to know what is said in the recording. Please give its text as well.")
        if not len(clip.samples) or seconds > LONGEST_CLIP:
            raise InvalidRequest(
                f"The recording is {seconds:.0f} seconds long. Please give one of 1 to {LONGEST_CLIP} seconds."
            )
        turn = Turn(" ".join(clip.text.split()), self.codec.encode(clip.samples.to(self.codec.device)).cpu())
        if len(self.writer.said(turn, self.voices[1])) > self._memory:
            raise InvalidRequest("The recording and its text are too long together. Please give a shorter one.")
        return turn

    def new_states(self, slots: int) -> CsmStates:
        positions, books = self.cache.positions, self.codebooks
        none = partial(torch.full, fill_value=-1, device=self.device)
        zeros = partial(torch.zeros, dtype=torch.long, device=self.device)
        return CsmStates(
            text=none((slots, positions)),
            codes=zeros(slots, positions, books, dtype=torch.int16),
            length=zeros(slots),
            frame=zeros(slots, books),
            made=zeros(slots),
            history=none((slots, ROOM, books)),
        )

    def admit(self, states: CsmStates, slot: int, prompt: Prompt) -> None:
        written: Written = prompt.data
        states.text[slot, : len(written)] = written.text
        states.codes[slot, : len(written)] = written.codes.short()
        states.length[slot], states.made[slot] = len(written), 0
        states.history[slot] = -1

    def forward(self, batch: Batch, states: CsmStates) -> Tensor:
        rows = batch.rows
        in_prompt = batch.positions < states.length[rows]
        text = torch.where(in_prompt, states.text[rows, batch.positions], -1)
        codes = torch.where(in_prompt[:, None], states.codes[rows, batch.positions].long(), states.frame[rows])
        hidden = self.network(text, codes, batch.positions, batch.attention)
        return hidden if batch.decode_only else hidden[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: CsmStates, sampler: Sampler) -> Frames:
        codes = self.network.frame(hidden, sampler, states.history[slots])
        states.frame[slots] = codes
        states.history[slots, states.made[slots]] = codes
        states.made[slots] += 1
        return Frames(codes, (codes == 0).all(1))


class CsmDetokenizer(Detokenizer):
    """Mimi's; but the frame of zeros that ends a speech makes no sound."""

    lookahead, min_chunk = MimiTokens.lookahead, MimiTokens.min_chunk

    def __init__(self, codec: MimiTokens) -> None:
        self.codec, self.sample_rate, self.samples_per_group = codec, codec.sample_rate, codec.samples_per_group

    @classmethod
    def load(cls, folder: Path, device: torch.device = HOST) -> CsmDetokenizer:
        """Read the codec of a model's folder. Raises `WeightsError`."""
        return cls(checkpoint.load_codec(folder, device))

    @property
    def device(self) -> torch.device:
        return self.codec.device

    def record(self, streams: int, repeat: Repeat) -> bool:
        return self.codec.record(streams, repeat)

    def new_state(self, seed: int, voice: Voice = None) -> MimiTokensState:
        """State of an utterance of which nothing has come."""
        return self.codec.new_state(seed)

    def decode(self, frames: Sequence[Tensor], states: Sequence[MimiTokensState], final: Sequence[bool]) -> list[Tensor]:
        """New frames [n_i, books] of each stream -> samples; see `MimiTokens.decode`."""
        return self.codec.decode([codes[codes.any(1)] for codes in frames], states, final)
