"""A tiny speech-to-speech model with random weights: what the tests of hearing and answering speak with."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.engine.toy import Toy
from voxrtc.speechlm.base import Frames, InvalidRequest, Prompt, Said, Sampler, TooLong, Utterance

ROLES = {"system": 1, "user": 2, "assistant": 3}
STRIDE = 1600  # samples heard that make a position
EVERY = 3  # frames of which the first writes
MARK = 63  # second code of a frame that writes; poison to the detokenizer
HALVES = 56  # first codes from here on are the first half of a character


@dataclass
class Ear:
    """A recording being heard."""

    rest: Tensor = field(default_factory=lambda: torch.empty(0))
    codes: list[int] = field(default_factory=list)
    complete: bool = False


class Talker(Toy):
    """Answers with four frames for each position of the last turn. It fails where `Toy` does; a sound of 0.9 breaks its
    ear, and one of -0.9 is what it cannot take."""

    hears, hearing_rate = True, 8000

    def listen(self) -> Ear:
        return Ear()

    def hear(self, hearing: Ear, samples: Tensor, final: bool) -> None:
        assert not hearing.complete
        if len(samples) and samples.max() > 0.89:
            raise RuntimeError("an ear that breaks")
        if len(samples) and samples.min() < -0.89:
            raise InvalidRequest("This recording hurts.")
        hearing.rest, hearing.complete = torch.cat((hearing.rest, samples)), final
        while len(hearing.rest) >= STRIDE or (final and len(hearing.rest)):
            part, hearing.rest = hearing.rest[:STRIDE], hearing.rest[STRIDE:]
            hearing.codes.append(128 + int(63 * part.abs().mean()))

    def preprocess(self, utterance: Utterance) -> Prompt:
        assert utterance.conversation and not utterance.text
        turns = [self._positions(turn) for turn in utterance.conversation]
        data = torch.tensor([position for turn in turns for position in turn])
        if len(data) > 96:
            raise TooLong("This conversation is too long. Please say less.")
        return Prompt(length=len(data), max_frames=min(60, 4 * len(turns[-1]), 127 - len(data)), data=data)

    def _positions(self, turn: Said) -> list[int]:
        assert turn.sound is None or turn.sound.complete
        if turn.frames is not None:
            return [ROLES[turn.role], *(192 + code % 64 for code in turn.frames[:, 0].tolist())]
        return [ROLES[turn.role], *(turn.sound.codes if turn.sound else turn.text.encode())]

    def silent(self, frame: Tensor) -> bool:
        return int(frame[1]) == MARK

    def written(self, frames: Tensor) -> str:
        text, half = "", False
        for code in frames[frames[:, 1] == MARK, 0].tolist():
            text += ("é" if half else "") + ("" if code >= HALVES else " " if code % 5 == 0 else chr(97 + code % 26))
            half = code >= HALVES
        return text

    def sample(self, hidden: Tensor, slots: Tensor, states: dict[str, Tensor], sampler: Sampler) -> Frames:
        frame = super().sample(hidden, slots, states, sampler).codes
        there = torch.arange(128) < states["length"][slots][:, None]
        poisoned = ((states["text"][slots] == ord("#")) & there).any(1)
        writes = states["made"][slots] % EVERY == 1
        frame = torch.stack((torch.where(poisoned, MARK, frame[:, 0]), torch.where(writes, MARK, frame[:, 1])), 1)
        states["frame"][slots] = frame
        return Frames(frame, torch.zeros(len(slots), dtype=torch.bool))
