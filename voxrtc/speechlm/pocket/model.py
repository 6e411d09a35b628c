"""Pocket-TTS served: the four verbs of `SpeechLM` over `PocketNetwork` (Kyutai; facts from `pocket-tts` 4.0.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.base import (
    HOST,
    ON_HOST,
    Batch,
    CacheShape,
    Clip,
    Frames,
    InvalidRequest,
    Placement,
    Prefix,
    Prompt,
    Sampler,
    SpeechLM,
    Utterance,
)
from voxrtc.speechlm.layers.linear import pack
from voxrtc.speechlm.pocket import checkpoint
from voxrtc.speechlm.pocket.config import PocketConfig
from voxrtc.speechlm.pocket.detokenizer import PocketDetokenizer
from voxrtc.speechlm.pocket.network import PocketNetwork
from voxrtc.speechlm.pocket.text import MAX_TOKENS, Writer, read_tokenizer
from voxrtc.speechlm.pocket.voice import PAUSE, VoiceEncoder, clone, end_on_pause, read_voice, voice_length
from voxrtc.speechlm.weights import SINGLE, WeightsError

SAMPLE_RATE, FRAME_RATE = 24_000, 12.5
LONGEST_VOICE = math.ceil(30 * FRAME_RATE) + 1  # positions there are at least: half a minute, and a beginning before it
MOST_ROWS = 128  # of a step that is not out of the ordinary
DEAF = 6  # frames in which a wish to end is not heard: some voices have it before they speak
FAVOURITES = ("alba", "giovanni", "lola", "juergen", "rafael", "daan", "estelle")  # default voices of the languages


def longest(tokens: int) -> int:
    """Frames that so many tokens of text may take."""
    return math.ceil((tokens / 3 + 2) * FRAME_RATE)


def new_detokenizer(config: PocketConfig) -> PocketDetokenizer:
    """With weights still to be filled."""
    return PocketDetokenizer(config.codec, config.latent, SAMPLE_RATE)


def load_detokenizer(folder: Path, device: torch.device = HOST) -> PocketDetokenizer:
    """The detokenizer alone, of a checkpoint's folder. Raises `speechlm.weights.WeightsError`."""
    detokenizer = new_detokenizer(PocketConfig.load(folder))
    checkpoint.fill_detokenizer(folder / SINGLE, detokenizer)
    detokenizer.requires_grad_(False).to(device).pack()
    return detokenizer


@dataclass
class PocketStates:
    """Tables with a row a slot."""

    text: Tensor  # [slots, MAX_TOKENS] ids
    start: Tensor  # [slots] position of the first of them
    latent: Tensor  # [slots, latent] the latest, or what stands for none
    made: Tensor  # [slots] latents
    after: Tensor  # [slots] latents to be made from the wish to end on
    left: Tensor  # [slots] of these, still to be made; -1 before the wish


class Pocket(SpeechLM):
    """A voice's part of the cache, the text, then latents until the model wishes to end, and a few more."""

    frame_rate = FRAME_RATE
    codebooks = 0

    def __init__(self, config: PocketConfig, writer: Writer, voices: dict[str, Path], at: Placement = ON_HOST) -> None:
        """A model with weights still to be filled; `ready` ends that. `voices` are files by name, at least one.

        It stays in float32, as the reference: what it says is fed back as it is, not as the nearest code.
        """
        self.device, self._sound = at.device, at.detokenizer
        voice = max(LONGEST_VOICE, *map(voice_length, voices.values()))
        positions = voice + MAX_TOKENS + 1 + longest(MAX_TOKENS)
        self.network = PocketNetwork(config, replace(config.decoder, positions=positions))
        self.detokenizer = new_detokenizer(config)
        self.encoder, self.writer = VoiceEncoder(config), writer
        shape = self.network.decoder.config
        self.cache = CacheShape.of(shape)
        self.defaults = Sampling(temperature=config.temperature, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0)
        self.voices = ("default", *voices)
        favourite = next((name for name in FAVOURITES if name in voices), next(iter(voices)))
        self._files = {**voices, "default": voices[favourite]}
        self._read = cache(lambda path: read_voice(path, shape).to(at.device))

    @classmethod
    def load(cls, folder: Path, at: Placement = ON_HOST) -> Pocket:
        """Read a checkpoint's folder, like `languages/english` of Kyutai's repositories.

        It holds `model.safetensors`, `tokenizer.json` or `tokenizer.model`, `embeddings/<voice>.safetensors`, and
        `config.yaml` unless its name is a released checkpoint's. Raises `speechlm.weights.WeightsError`.
        """
        config = PocketConfig.load(folder)
        voices = {path.stem: path for path in sorted((folder / "embeddings").glob("*.safetensors"))}
        if not voices:
            raise WeightsError(f"There are no voices in {folder / 'embeddings'}. Check the model's folder.")
        model = cls(config, Writer(config.text, read_tokenizer(folder, config.vocabulary)), voices, at)
        model.fill(folder / SINGLE)
        return model

    def fill(self, path: Path) -> None:
        """Read the weights, and be ready. Raises `speechlm.weights.WeightsError`."""
        checkpoint.fill(path, self.network, self.detokenizer, self.encoder)
        self.ready()

    def ready(self) -> None:
        """From here on weights stay as they are."""
        for module, device in ((self.network, self.device), (self.detokenizer, self._sound), (self.encoder, self.device)):
            module.requires_grad_(False).to(device)
        # What Kyutai publishes for everyone has zeros where its encoder of voices would be.
        self.clones = any(bool(weight.any()) for weight in self.encoder.mimi.seanet.parameters())
        pack(self.network, MOST_ROWS, smallest=256 * 256)
        self.detokenizer.pack()

    def prefix(self, voice: str) -> Prefix:
        """A voice, read when it is first asked for. Raises `speechlm.weights.WeightsError`."""
        return self._read(self._files[voice])

    def clone(self, clip: Clip) -> Prefix:
        if not self.clones:
            raise InvalidRequest(
                "This checkpoint of Pocket-TTS cannot imitate a voice. Please choose one of its voices, or have the server "
                "load the weights of kyutai/pocket-tts."
            )
        room = (LONGEST_VOICE - 1) * round(SAMPLE_RATE / FRAME_RATE) - round(PAUSE * SAMPLE_RATE)
        return clone(end_on_pause(clip.samples[:room], SAMPLE_RATE), self.encoder, self.network)

    def size(self, imitation: Prefix) -> int:
        return imitation.keys.nbytes + imitation.values.nbytes

    def split(self, text: str) -> list[str]:
        return self.writer.split(text)

    def preprocess(self, utterance: Utterance) -> Prompt:
        prefix, ids = utterance.imitation or self.prefix(utterance.voice), torch.tensor(self.writer.ids(utterance.text))
        assert len(ids) <= MAX_TOKENS, "a piece comes from `split`"
        after = self.network.config.frames_after_eos or (5 if len(utterance.text.split()) <= 4 else 3)
        # One position more, where the first latent is asked for.
        return Prompt(len(prefix) + len(ids) + 1, longest(len(ids)), (ids, after), prefix)

    def new_states(self, slots: int) -> PocketStates:
        none = torch.zeros(slots, dtype=torch.long, device=self.device)
        text = torch.zeros(slots, MAX_TOKENS, dtype=torch.long, device=self.device)
        latent = torch.zeros(slots, self.network.config.latent, device=self.device)
        return PocketStates(text, none, latent, none.clone(), none.clone(), none.clone())

    def admit(self, states: PocketStates, slot: int, prompt: Prompt) -> None:
        ids, after = prompt.data
        states.text[slot, : len(ids)] = ids
        states.start[slot] = prompt.known
        states.latent[slot] = self.network.begin
        states.made[slot], states.after[slot], states.left[slot] = 0, after, -1

    def forward(self, batch: Batch, states: PocketStates) -> Tensor:
        if batch.frames_only:
            return self.network.trunk(self.network.latent(states.latent[batch.slots]), batch.positions, batch.attention)
        place = (batch.positions - states.start[batch.rows]).clamp(0, MAX_TOKENS - 1)
        x = self.network.text(states.text[batch.rows, place])
        # The last token of a stream that is asked for a frame is that frame's position, all others are the text's.
        x[batch.ends[batch.asked]] = self.network.latent(states.latent[batch.slots[batch.asked]])
        return self.network.trunk(x, batch.positions, batch.attention)[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: PocketStates, sampler: Sampler) -> Frames:
        latents = self.network.head(sampler.normal(self.network.config.latent), hidden)
        wishes = self.network.ends(hidden) & (states.made[slots] >= DEAF)
        before = states.left[slots]
        left = torch.where((before < 0) & wishes, states.after[slots], before)
        left = torch.where(left > 0, left - 1, left)
        states.latent[slots], states.left[slots] = latents, left
        states.made[slots] += 1
        return Frames(latents, left == 0)
