"""Orpheus (Canopy Labs): a Llama that continues “voice: text” with the codes of SNAC, one token a step.

Seven tokens are a frame of SNAC, 2048 samples. Token i of a speech is in slot i mod 7, and each slot has 4096 ids of its own.
Only those may be sampled, and the token that ends speech only where a frame ends. The reference samples from all 156,940,
drops text tokens and throws away every window with a code that is in another slot's range. A trained model hardly ever wants
such a token; but one alone would shift or spoil all that follows, so it had better be impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm import sentences
from voxrtc.speechlm.base import (
    HOST,
    ON_HOST,
    Batch,
    CacheShape,
    Detokenizer,
    Frames,
    InvalidRequest,
    Placement,
    Prompt,
    Sampler,
    SpeechLM,
    Utterance,
    Voice,
)
from voxrtc.speechlm.causal_lm import CausalLM
from voxrtc.speechlm.codecs.lanes import LaneState
from voxrtc.speechlm.codecs.snac import Snac
from voxrtc.speechlm.codecs.streams import StreamState
from voxrtc.speechlm.detokenizer import Repeat
from voxrtc.speechlm.weights import WeightsError, read_json, read_tokenizer

START_OF_HUMAN, END_OF_TEXT, END_OF_HUMAN, START_OF_AI, START_OF_SPEECH = 128259, 128009, 128260, 128261, 128257
TEXT_IDS = 128256  # ids of Llama 3's own vocabulary; above are Orpheus's
STOP, FIRST = 128258, 128266  # the end of speech; code 0 of slot 0
SLOTS, CODES = 7, 4096
SPOKEN = range(STOP, FIRST + SLOTS * CODES)  # the ids that may come out, and a few between that may not
END = CODES  # the code that stands for STOP

TEXT_TOKENS = 64  # of a piece: 15 to 20 s of English
FRAMES = 350  # of a piece at most: 30 s. A model that does not find its end is stopped in proportion to the text
FRAMES_AT_LEAST, FRAMES_A_TOKEN = 48, 5
ROOM = FRAMES + 1  # a further step may be under way when the limit is found
PROMPT = TEXT_TOKENS + 16  # positions
POSITIONS = PROMPT + SLOTS * FRAMES


class Network(CausalLM):
    """The backbone. Its head holds the rows of `SPOKEN` only, once it is loaded."""

    @classmethod
    def load(cls, folder: Path, positions: int, dtype: torch.dtype = torch.float32) -> Network:
        """Read a folder that transformers' `LlamaForCausalLM` saved. Raises `WeightsError`."""
        vocabulary = read_json(folder / "config.json").get("vocab_size", 0)
        if vocabulary < SPOKEN.stop:
            raise WeightsError(f"{folder} has {vocabulary} tokens; Orpheus's codes need {SPOKEN.stop}.")
        network = super().load(folder, positions, dtype)
        network.head.weight = nn.Parameter(network.head.weight[SPOKEN.start : SPOKEN.stop].clone(), requires_grad=False)
        return network

    def scores(self, hidden: Tensor, slot: Tensor) -> Tensor:
        """Hidden states [n, dim] whose next token is in `slot` [n] -> scores of its codes and of the end [n, CODES + 1].

        All slots' rows are multiplied, 3% of the model's work, since which of them are wanted is known on the device only.
        """
        scores = self.head(hidden)
        codes = scores[:, FIRST - STOP :].unflatten(1, (SLOTS, CODES))[torch.arange(len(slot), device=slot.device), slot]
        end = scores[:, 0].masked_fill(slot > 0, -torch.inf)
        return torch.cat((codes, end[:, None]), 1)


@dataclass
class OrpheusStates:
    """Tables with a row a slot of the engine."""

    prompt: Tensor  # [slots, PROMPT] token ids
    length: Tensor  # [slots] of the prompt
    token: Tensor  # [slots] id of the latest token
    made: Tensor  # [slots] tokens of speech so far
    history: Tensor  # [slots, SLOTS, ROOM] codes so far, by slot in the frame; -1 where there is none


class Orpheus(SpeechLM):
    """Text prompt, then a code a step until the model says that speech ends or the limit of its length is reached."""

    codebooks = 1
    frame_rate = SLOTS * 24_000 / 2048  # tokens a second
    defaults = Sampling(temperature=0.6, top_k=0, top_p=0.8, min_p=0.0, repetition_penalty=1.3)

    def __init__(self, network: Network, tokenizer: Tokenizer, detokenizer: OrpheusDetokenizer, voices: Sequence[str]) -> None:
        self.network, self.tokenizer, self.detokenizer = network, tokenizer, detokenizer
        self.voices = ("default", *voices)  # the first of them, for a listener who asked for none
        self.device, self.dtype = network.embed.weight.device, network.dtype
        self.cache = CacheShape.of(network.decoder.config)
        # A listener's text is text, whatever it looks like: nobody may write the prompt's own marks into it.
        tokenizer.encode_special_tokens = True

    @classmethod
    def load(cls, folder: Path, voices: Sequence[str], at: Placement = ON_HOST) -> Orpheus:
        """Read a folder like `canopylabs/orpheus-3b-0.1-ft`, with SNAC's in its subfolder `snac`. Raises `WeightsError`."""
        tokenizer = read_tokenizer(folder / "tokenizer.json")
        network = Network.load(folder, POSITIONS, at.dtype).to(at.device)
        network.pack()
        return cls(network, tokenizer, OrpheusDetokenizer.load(folder, at.detokenizer), voices)

    def split(self, text: str) -> list[str]:
        return sentences.pieces(text, lambda piece: len(self._text_ids(piece)) <= TEXT_TOKENS)

    def preprocess(self, utterance: Utterance) -> Prompt:
        piece, voice = utterance.text, utterance.voice
        name = self.voices[1] if voice == "default" else voice
        ids = self.prompt_ids(piece, name)
        if max(ids[1:-4]) >= TEXT_IDS:
            raise InvalidRequest(f"“{piece[:40]}” names a token that is the model's own. Please write it differently.")
        assert len(ids) <= PROMPT, f"{len(ids)} ids in a piece"
        frames = min(FRAMES, FRAMES_AT_LEAST + FRAMES_A_TOKEN * (len(ids) - 6))
        return Prompt(length=len(ids), max_frames=SLOTS * frames, data=torch.tensor(ids))

    def prompt_ids(self, piece: str, voice: str) -> list[int]:
        """The prompt that the model was tuned on; the tokenizer itself puts its mark of beginning before the text."""
        text = self.tokenizer.encode(f"{voice}: {piece}").ids
        return [START_OF_HUMAN, *text, END_OF_TEXT, END_OF_HUMAN, START_OF_AI, START_OF_SPEECH]

    def _text_ids(self, piece: str) -> list[int]:
        return self.tokenizer.encode(piece, add_special_tokens=False).ids

    def new_states(self, slots: int) -> OrpheusStates:
        count = torch.zeros(slots, dtype=torch.long, device=self.device)
        history = torch.full((slots, SLOTS, ROOM), -1, device=self.device)
        prompt = torch.zeros(slots, PROMPT, dtype=torch.long, device=self.device)
        return OrpheusStates(prompt, count, count.clone(), count.clone(), history)

    def admit(self, states: OrpheusStates, slot: int, prompt: Prompt) -> None:
        states.prompt[slot, : prompt.length] = prompt.data
        states.length[slot], states.made[slot] = prompt.length, 0
        states.history[slot] = -1

    def forward(self, batch: Batch, states: OrpheusStates) -> Tensor:
        rows = batch.rows
        prompt = states.prompt[rows, batch.positions.clamp(max=PROMPT - 1)]
        ids = torch.where(batch.positions < states.length[rows], prompt, states.token[rows])
        hidden = self.network(ids, batch.positions, batch.attention)
        return hidden if batch.decode_only else hidden[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: OrpheusStates, sampler: Sampler) -> Frames:
        made = states.made[slots]
        slot = made % SLOTS
        # vLLM and transformers penalise every token there has been, however long ago, the prompt's too; none of those can be
        # sampled here, nor can a code of another slot, so this slot's own history is all that counts.
        code = sampler(self.network.scores(hidden, slot), 0, states.history[slots, slot])
        last = code == END
        states.token[slots] = torch.where(last, STOP, FIRST + CODES * slot + code)
        states.history[slots, slot, made // SLOTS] = code
        states.made[slots] = made + 1
        return Frames(code[:, None], last)


@dataclass(slots=True)
class OrpheusState:
    """One stream between calls: its codes that are no whole frame yet, and what SNAC keeps."""

    rest: Tensor
    codec: StreamState | LaneState


class OrpheusDetokenizer(Detokenizer):
    """Codes one by one -> SNAC's frames -> samples. `END` begins a frame that is never whole, hence never heard."""

    group = SLOTS
    min_chunk = SLOTS

    def __init__(self, codec: Snac) -> None:
        self.codec, self.sample_rate, self.samples_per_group = codec, codec.sample_rate, codec.samples_per_group
        self.lookahead = SLOTS - 1 + ceil(codec.lag * SLOTS / codec.samples_per_group)  # the frame's others, then SNAC's

    @classmethod
    def load(cls, folder: Path, device: torch.device = HOST) -> OrpheusDetokenizer:
        """Read SNAC in its subfolder `snac`, which stays in float32. Raises `WeightsError`."""
        return cls(Snac.load(folder / "snac").to(device))

    @property
    def device(self) -> torch.device:
        return self.codec.device

    def record(self, streams: int, repeat: Repeat) -> bool:
        return self.codec.record(streams, repeat)

    def new_state(self, seed: int, voice: Voice = None) -> OrpheusState:
        """State of an utterance of which nothing has come."""
        return OrpheusState(torch.empty(0, dtype=torch.long, device=self.device), self.codec.new_state(seed))

    def decode(self, frames: Sequence[Tensor], states: Sequence[OrpheusState], final: Sequence[bool]) -> list[Tensor]:
        """New codes [n_i, 1] of each stream -> samples; see `Snac.decode`, of whose frames every seven codes are one."""
        codes = [torch.cat((state.rest, new.flatten())) for state, new in zip(states, frames, strict=True)]
        whole = [len(c) // SLOTS * SLOTS for c in codes]
        ready = [c[:n].view(-1, SLOTS) for c, n in zip(codes, whole, strict=True)]
        samples = self.codec.decode(ready, [state.codec for state in states], final)
        for state, c, n in zip(states, codes, whole, strict=True):
            state.rest = c[n:]
        return samples
