"""Lark served: the four verbs of `SpeechLM` over `LarkNetwork`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.base import (
    ON_HOST,
    Batch,
    CacheShape,
    Frames,
    InvalidRequest,
    Placement,
    Prompt,
    Sampler,
    SpeechLM,
    Utterance,
)
from voxrtc.speechlm.lark import text
from voxrtc.speechlm.lark.detokenizer import LarkDetokenizer
from voxrtc.speechlm.lark.network import LarkConfig, LarkNetwork
from voxrtc.speechlm.lark.running import Script, read_on
from voxrtc.speechlm.layers.linear import pack
from voxrtc.speechlm.weights import SINGLE, load_module, read_safetensors, tensors_under

ADVANCE, UNITS = 0, slice(1, 5)  # codebooks: whether the pointer moves on; what the phoneme sounds like
GREEDY = dict(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0)
MOST_ROWS = 512  # of a step that is not out of the ordinary
RECENT = 32  # frames that the repetition penalty looks back on


@dataclass
class LarkStates:
    """Tables with a row a slot. Phonemes stand behind a margin, so that windows at the edges need no special case."""

    phonemes: Tensor  # [slots, margin + PHONEMES + margin], -1 where there is none
    length: Tensor  # [slots] phonemes of the sentence
    pointer: Tensor  # [slots] the phoneme being spoken
    elapsed: Tensor  # [slots] frames spent on it
    history: Tensor  # [slots, RECENT, codebooks] the latest frames, newest last, -1 where there is none


class Lark(SpeechLM):
    """Phoneme prefix, then frames of seven codes until the pointer has passed the last phoneme.

    Of text that is still being written there is no prefix, as in half of its training, and the pointer stays where its window
    of phonemes is known. So the frames do not depend on when the text came.
    """

    frame_rate = 40.0
    runs = True
    codebooks = 7
    voices = ("default",)
    max_phonemes = text.MAX_IDS

    def __init__(self, network: LarkNetwork, detokenizer: LarkDetokenizer, defaults: Sampling) -> None:
        self.network, self.detokenizer, self.defaults = network, detokenizer, defaults
        self.device, self.dtype = network.codes.weight.device, network.codes.weight.dtype
        self.cache = CacheShape.of(network.config.decoder)
        low, high = network.config.window
        self._margin = max(-low, high)
        self._window = torch.arange(low, high + 1, device=self.device) + self._margin

    @classmethod
    def load(cls, folder: Path, at: Placement = ON_HOST) -> Lark:
        """Read `config.json` and `model.safetensors` of `folder`. Raises `speechlm.weights.WeightsError`.

        `at.dtype` is that of the network; the detokenizer, whose phase adds up, stays in float32.
        """
        config = json.loads((folder / "config.json").read_text())
        path = folder / SINGLE
        tensors = read_safetensors(path)
        network = LarkNetwork(LarkConfig.from_json(config["network"]))
        load_module(network, tensors_under(tensors, "lm."), path)
        network.to(at.device, at.dtype)
        pack(network, MOST_ROWS)
        return cls(network.eval(), LarkDetokenizer(tensors, at.detokenizer), Sampling(**{**GREEDY, **config["sampling"]}))

    def split(self, text_: str) -> list[str]:
        return text.split(text_)

    def preprocess(self, utterance: Utterance) -> Prompt:
        piece = utterance.text
        ids = text.phonemize(piece)
        if not 0 < len(ids) <= self.max_phonemes:
            raise InvalidRequest(f"“{piece[:40]}” has {len(ids)} sounds; a piece may have 1 to {self.max_phonemes}.")
        room = self.cache.positions - len(ids) - 1
        frames = min(room, len(ids) * (self.network.config.max_elapsed + 1))
        # The last prompt position is the first frame's input: its hidden state gives the first frame.
        words = text.words(piece, piece if utterance.source is None else utterance.source)
        return Prompt(length=len(ids) + 1, max_frames=frames, data=Script(tuple(ids)), words=words)

    def extend(self, prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        script = read_on(prompt.data if prompt else Script(), utterance.text, final)
        reach = None if script.whole else len(script.ids) - self.network.config.window[1]
        if not script.words or (reach is not None and reach < 1):
            return None
        frames = self.cache.positions - 1
        return Prompt(1, frames, script, words=script.words, reach=reach, characters=script.characters)

    def passes(self, frame: Tensor) -> int:
        return int(frame[ADVANCE])

    def new_states(self, slots: int) -> LarkStates:
        width = self.max_phonemes + 2 * self._margin
        count = torch.zeros(slots, dtype=torch.long, device=self.device)
        history = torch.full((slots, RECENT, self.codebooks), -1, device=self.device)
        phonemes = torch.full((slots, width), -1, device=self.device)
        return LarkStates(phonemes, count, count.clone(), count.clone(), history)

    def admit(self, states: LarkStates, slot: int, prompt: Prompt) -> None:
        self.grow(states, slot, prompt)
        states.pointer[slot], states.elapsed[slot] = 0, 0
        states.history[slot] = -1

    def grow(self, states: LarkStates, slot: int, prompt: Prompt) -> None:
        ids = torch.tensor(prompt.data.ids)
        states.phonemes[slot] = -1
        states.phonemes[slot, self._margin : self._margin + len(ids)] = ids
        states.length[slot] = len(ids)

    def forward(self, batch: Batch, states: LarkStates) -> Tensor:
        if batch.frames_only:
            return self.network.trunk(self._frame_inputs(batch.slots, states), batch.positions, batch.attention)
        ids = states.phonemes[batch.rows, batch.positions.clamp(max=self.max_phonemes) + self._margin]
        x = self.network.prompt_inputs(ids.clamp(min=0))
        # The last token of a stream that is asked for a frame is that frame's position, all others are the prompt's.
        x[batch.ends[batch.asked]] = self._frame_inputs(batch.slots[batch.asked], states)
        return self.network.trunk(x, batch.positions, batch.attention)[batch.ends]

    def _frame_inputs(self, slots: Tensor, states: LarkStates) -> Tensor:
        """Inputs of the next frame of `slots` [n] -> [n, dim]."""
        previous = states.history[slots, -1]
        previous = torch.where(previous >= 0, previous, self.network.start_codes())
        windows = states.phonemes[slots[:, None], states.pointer[slots, None] + self._window]
        return self.network.frame_inputs(previous, windows, states.elapsed[slots])

    def sample(self, hidden: Tensor, slots: Tensor, states: LarkStates, sampler: Sampler) -> Frames:
        history = states.history[slots]
        codes, z = [], hidden
        for book in range(self.codebooks):
            recent = None if book == ADVANCE else history[..., book]
            codes.append(sampler(self.network.logits(z, book), book, recent))
            if book + 1 < self.codebooks:
                codes[book] = self._rule(book, codes[book], history[:, -1, book], states.elapsed[slots])
                z = self.network.choose(z, book, codes[book])
        frame = torch.stack(codes, dim=-1)
        return Frames(frame, self._move(slots, states, history, frame))

    def _rule(self, book: int, codes: Tensor, before: Tensor, elapsed: Tensor) -> Tensor:
        """What the data never breaks, the model may not either: a phoneme keeps its units, and ends in time."""
        if book == ADVANCE:
            return torch.where(elapsed >= self.network.config.max_elapsed, 1, codes)
        return torch.where(elapsed > 0, before, codes) if UNITS.start <= book < UNITS.stop else codes

    def _move(self, slots: Tensor, states: LarkStates, history: Tensor, frame: Tensor) -> Tensor:
        """Enter `frame` [n, codebooks] into the tables -> whether the last phoneme is spoken [n]."""
        moved = frame[:, ADVANCE]
        pointer = states.pointer[slots] + moved
        states.history[slots] = torch.cat([history[:, 1:], frame[:, None]], dim=1)
        states.elapsed[slots] = torch.where(moved == 1, 0, states.elapsed[slots] + 1)
        # A stream that is over may be in a step that was under way; its window must still lie in the table.
        states.pointer[slots] = pointer.clamp(max=self.max_phonemes - 1)
        return pointer >= states.length[slots]
