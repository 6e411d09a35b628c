"""A conversation, as an engine is told of it, becomes the prompt of a model that hears. Pure, but for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from voxrtc.messages.conversation import ConversationTurn, Heard, Replied, Words
from voxrtc.messages.engine import Generate
from voxrtc.speechlm.base import InvalidRequest, Prompt, Said, SpeechLM, TooLong, Utterance

GONE = "What was said is not kept any more, and its words are not known. Please say it again."


def turns(request: Generate) -> tuple[ConversationTurn, ...]:
    """What is to be answered; a text alone is what a user typed."""
    return request.conversation or (Words(role="user", text=request.text),)


def converse(model: SpeechLM, request: Generate, sounds: Mapping[str, Any], imitation: Any) -> Prompt:
    """The prompt of as much of the conversation as fits; the oldest turns leave first, and instructions stay.

    `sounds` has what was heard, or why not. Raises what a last turn could not be heard for, and `InvalidRequest`.
    """
    wished = turns(request)
    if isinstance(last := wished[-1], Heard) and not last.text:
        sound = sounds.get(last.hearing, InvalidRequest(GONE))
        if isinstance(sound, BaseException):
            raise sound
    said = [each for turn in wished if (each := _said(model, turn, sounds))]
    if not said:
        raise InvalidRequest("There is nothing to answer. Please say or type something.")
    return _fitting(model, Utterance("", request.voice, imitation), said)


def cut(model: SpeechLM, frames: Tensor, seconds: float | None) -> Tensor:
    """Of a reply's frames [n, width] those up to so many seconds of its sound; None: all."""
    sounding = [at for at, frame in enumerate(frames) if not model.silent(frame)]
    if seconds is None or (heard := round(seconds * model.frame_rate)) >= len(sounding):
        return frames
    return frames[: sounding[heard - 1] + 1 if heard else 0]


def _said(model: SpeechLM, turn: ConversationTurn, sounds: Mapping[str, Any]) -> Said | None:
    """A turn as the model takes it; None when nothing is left of it."""
    match turn:
        case Words():
            return Said(turn.role, turn.text) if turn.text.strip() else None
        case Heard():
            sound = sounds.get(turn.hearing)
            known = sound is not None and not isinstance(sound, BaseException)
            return Said("user", turn.text, sound if known else None) if known or turn.text.strip() else None
        case Replied():
            numbers = np.frombuffer(turn.frames, "<i4").astype(np.int64).reshape(-1, model.codebooks)
            frames = cut(model, torch.from_numpy(numbers), turn.heard)
            return Said("assistant", frames=frames) if len(frames) else None


def _fitting(model: SpeechLM, utterance: Utterance, said: Sequence[Said]) -> Prompt:
    while True:
        try:
            return model.preprocess(replace(utterance, conversation=tuple(said)))
        except TooLong:
            if not (shorter := _shorter(said)):
                raise
            said = shorter


def _shorter(said: Sequence[Said]) -> list[Said]:
    """Without the oldest exchange: what a user said first, and all that was answered. Empty when only the last turn is left."""
    system = [turn for turn in said if turn.role == "system"]
    rest = [turn for turn in said if turn.role != "system"][1:]
    while rest and rest[0].role == "assistant":
        rest = rest[1:]
    return [*system, *rest] if rest else []
