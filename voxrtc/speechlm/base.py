"""The interface between what a model computes and what the engine schedules (VoxServe, arXiv 2602.00269, section 3).

A model keeps nothing of a stream in itself. Per-stream numbers live in tables with one row a *slot*: the engine decides
which stream sits in which slot, the model which numbers it needs (`new_states`). So a step is a few batched tensor
operations over slots, whatever streams join, leave or are cancelled between steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.detokenizer import Detokenizer, Voice
from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import DecoderConfig

HOST = torch.device("cpu")


@dataclass(frozen=True)
class Placement:
    """Where a model's two stages are, and the numbers of its backbone; a family may stay in float32 where these ask for it."""

    device: torch.device = HOST
    dtype: torch.dtype = torch.float32
    sound: torch.device | None = None  # of the detokenizer; None: where the language model is

    @property
    def detokenizer(self) -> torch.device:
        """Its device."""
        return self.sound or self.device


ON_HOST = Placement()


class InvalidRequest(ValueError):
    """This text or voice cannot be spoken. The message is shown to the person and says what to do."""


class TooLong(InvalidRequest):
    """A conversation that does not fit: the engine leaves its oldest turns out and asks again."""


@dataclass(frozen=True)
class CacheShape:
    """What one position takes in the key-value cache, and how many positions a prompt with its frames may need."""

    layers: int
    heads: int  # of the queries
    kv_heads: int
    head_dim: int
    positions: int

    @classmethod
    def of(cls, decoder: DecoderConfig) -> CacheShape:
        """What a decoder needs."""
        return cls(decoder.layers, decoder.heads, decoder.kv_heads, decoder.head_dim, decoder.positions)


@dataclass(frozen=True)
class Prefix:
    """What the first positions of a prompt left in the cache when they were computed once and for all, like a voice's."""

    keys: Tensor  # [layers, n, kv_heads, head_dim], as the model's own attention would have stored them
    values: Tensor

    def __len__(self) -> int:
        return self.keys.shape[1]

    def to(self, device: torch.device) -> Prefix:
        """The same on a device."""
        return Prefix(self.keys.to(device), self.values.to(device))


@dataclass(frozen=True)
class Word:
    """Where a word is spoken: in the units from `begin` up to `end` of its prompt. Units are the family's own: phonemes."""

    begin: int
    end: int
    characters: int  # of the prompt's source that are said with it: its own and all before them


@dataclass(frozen=True)
class Prompt:
    """A piece of text made ready: `length` positions, at most `max_frames` to follow, `data` the family's own.

    Of the positions the first `len(prefix)` need no prefill: the cache gets them as they are. `words` are in their order; a
    model that cannot tell when it speaks which has none.
    """

    length: int
    max_frames: int
    data: Any
    prefix: Prefix | None = None
    words: tuple[Word, ...] = ()
    reach: int | None = None  # None: it is whole
    characters: int = 0

    @property
    def known(self) -> int:
        """Positions that the prefix brings."""
        return len(self.prefix) if self.prefix else 0


@dataclass(frozen=True)
class Clip:
    """A recording of a voice to speak with."""

    samples: Tensor  # [n] floats, mono, at the rate of the model's detokenizer
    text: str  # what is said in it; "" where nobody knows


@dataclass(frozen=True)
class Turn:
    """An earlier piece of the same stream: what was to be said, and the frames [n, width] that were sampled."""

    text: str
    frames: Tensor


@dataclass(frozen=True)
class Said:
    """A turn of a conversation, as a model that `hears` takes it."""

    role: Literal["system", "user", "assistant"]
    text: str = ""  # what was said, if that is known or was typed; of an assistant's turn with frames it is unused
    sound: Any = None  # of the user: what `SpeechLM.hear` made of the recording, complete
    frames: Tensor | None = None  # of the assistant: as they were sampled [n, width], text and all, cut to what was heard


@dataclass(frozen=True)
class Utterance:
    """A piece of text to be spoken, by whom, and after what. Or, for a model that `hears`, a conversation to be answered."""

    text: str
    voice: str = "default"
    imitation: Any = None  # what `SpeechLM.clone` made of a recording, to be spoken with instead of `voice`
    before: tuple[Turn, ...] = ()  # only for models that `remember`
    source: str | None = None  # what was written that `split` made `text` of; None: `text` itself
    instructions: str = ""  # how to speak it, in words; heard by models that take such
    conversation: tuple[Said, ...] = ()  # only for models that `hear`: the prompt is this, and `text` is ""


@dataclass(frozen=True)
class Batch:
    """The tokens of one step: for each of n streams the next `counts[i]` positions, one stream after the other.

    A decode step may be filled up with streams that nobody hears, behind the others. All tensors are on the model's device;
    what the host knows need not be asked of them, which would wait for the step before.
    """

    slots: Tensor  # [n] table rows
    counts: tuple[int, ...]  # tokens of each stream; 1 for all of them in a pure decode step
    positions: Tensor  # [sum(counts)] position of each token in its stream
    rows: Tensor  # [sum(counts)] table row of each token
    ends: Tensor  # [n] which token is a stream's last
    asked: Tensor  # [m] of the n those whose prompt is complete with its last token, or was before: they get a frame
    frames_only: bool  # every stream has one token, and that is the position of a frame
    attention: Attention

    @property
    def decode_only(self) -> bool:
        """Whether every stream has exactly one token."""
        return len(self.positions) == len(self.counts)


class Sampler(Protocol):
    """Chance, by each stream's own settings, random numbers and history: codes for codebooks, noise for latents."""

    def __call__(self, logits: Tensor, book: int, recent: Tensor | None = None) -> Tensor:
        """Scores [n, size] of codebook `book` -> codes [n].

        `recent` [n, any], padded with -1, holds the codes that the repetition penalty is to weigh down.
        """
        ...

    def normal(self, width: int) -> Tensor:
        """Gaussian numbers [n, width] of mean 0 and of each stream's temperature as variance; for one use a frame."""
        ...


@dataclass(frozen=True)
class Frames:
    """What one step sampled: a frame a stream, and whether that stream's prompt is spoken [n]."""

    codes: Tensor  # [n, width]: an integer for each codebook, or the floats of a latent
    last: Tensor


class SpeechLM(ABC):
    """A speech language model: text in, frames of audio tokens out, one a stream and step."""

    cache: CacheShape
    frame_rate: float
    codebooks: int  # 0: frames are latents
    defaults: Sampling  # every field set
    voices: tuple[str, ...]
    detokenizer: Detokenizer
    device = HOST  # where weights, tables and what they give are, but for the detokenizer's
    dtype = torch.float32  # of the backbone, hence of the cache
    runs = False  # whether text can come while it is spoken: `extend` and `grow`
    clones = False  # whether it speaks in the voice of a recording: `clone`
    instructed = False  # whether `Utterance.instructions` are heard; only with a text that is all there
    remembers = False  # whether a piece's prompt needs the stream's earlier `Turn`s, so that it waits until they are spoken
    hears = False  # whether it takes conversations with sound, and answers them in words and sound: `listen`, `hear`, `written`
    hearing_rate = 16_000  # of the samples that `hear` takes

    @abstractmethod
    def split(self, text: str) -> list[str]:
        """Text of any length -> pieces that fit one prompt each, in order, nothing dropped. Raises `InvalidRequest`."""

    @abstractmethod
    def preprocess(self, utterance: Utterance) -> Prompt:
        """A piece, or a conversation -> its prompt. May be slow: runs off the step loop, on one thread.

        Raises `InvalidRequest`, and `TooLong` for a conversation that has to be shorter.
        """

    def extend(self, prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        """As much of a text that is still being written as can be spoken now and fits one prompt; None: not a word.

        `prompt` is what came of the beginning of this text, and the new one goes on where it ends; None for a further piece.
        With `final` all of the text is there. It must not matter when which part of it came. Runs where `preprocess` does.
        Raises `InvalidRequest`.
        """
        raise NotImplementedError

    def clone(self, clip: Clip) -> Any:
        """A recording -> what `Utterance.imitation` takes. May be slow, like `preprocess`. Raises `InvalidRequest`."""
        raise InvalidRequest("This model speaks with its own voices only. Please choose one of them.")

    def size(self, imitation: Any) -> int:
        """Bytes of memory that what `clone` made takes; 0: hardly any."""
        return 0

    def listen(self) -> Any:
        """A fresh state of a recording that is being heard."""
        raise NotImplementedError

    def hear(self, hearing: Any, samples: Tensor, final: bool) -> None:
        """More of a recording: floats [n], mono, any n. After `final` its state is complete, and goes into prompts (`Said`).

        All that can be is computed now, so that little is left when the person has finished; how the recording was cut must
        not matter. In place, on a thread of its own, without gradients. Raises `InvalidRequest`.
        """
        raise NotImplementedError

    def written(self, frames: Tensor) -> str:
        """The text in all frames [n, width] of a reply so far, of whole characters. It only grows as frames come."""
        raise NotImplementedError

    def passes(self, frame: Tensor) -> int:
        """How many units of its prompt's text end with a frame [width], at most one; of models whose prompts have `words`."""
        return 0

    def voice_of(self, prompt: Prompt) -> Voice:
        """What the detokenizer must know of the voice that a prompt is to be spoken in."""
        return None

    def silent(self, frame: Tensor) -> bool:
        """Whether a frame [width] is none of the sound's: with some models a step may take in or write text and say nothing.
        The detokenizer does not get it."""
        return False

    @abstractmethod
    def new_states(self, slots: int) -> Any:
        """Tables of per-stream numbers, one row a slot."""

    @abstractmethod
    def admit(self, states: Any, slot: int, prompt: Prompt) -> None:
        """Put a prompt into a slot, over whatever was there."""

    def grow(self, states: Any, slot: int, prompt: Prompt) -> None:
        """Put what `extend` made of a slot's prompt in its place. What was spoken stays as it is."""
        raise NotImplementedError

    @abstractmethod
    def forward(self, batch: Batch, states: Any) -> Tensor:
        """Prefill and decode alike: run the backbone over the batch -> hidden state of each stream's last token [n, dim]."""

    @abstractmethod
    def sample(self, hidden: Tensor, slots: Tensor, states: Any, sampler: Sampler) -> Frames:
        """Choose a frame for each of `slots` [n], whose prompts are complete, and move their states on by it.

        States move at the end: a call that raises has moved none.
        """


def pcm16(samples: Tensor) -> bytes:
    """Float samples in -1..1 -> PCM16 little endian; what is louder is clipped, never wrapped."""
    return (samples.clamp(-1.0, 1.0) * 32767.0).round().to(torch.int16).numpy().astype("<i2").tobytes()
