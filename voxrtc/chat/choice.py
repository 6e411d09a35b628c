"""Which model speaks, and in which voice."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from voxrtc.chat.events import EventError
from voxrtc.messages.model import ModelInfo

THEIRS = "gpt-"  # what names of OpenAI's models begin with
_RECORDED = re.compile(r"voice_[0-9a-f]{32}")
VOICE = "session.audio.output.voice"


def is_recorded(voice: str) -> bool:
    """Whether this is the id of a recording's voice, there or not, and no name."""
    return bool(_RECORDED.fullmatch(voice))


@dataclass(frozen=True)
class Choice:
    """A loaded model and a voice that it has, or the id of a recording's."""

    model: str
    voice: str


def choose(
    models: list[ModelInfo], model: str | None, voice: str | None, kept: Choice | None = None, recorded: Container[str] = ()
) -> Choice:
    """What is asked for, else what is `kept`, else the default: the first model, its voice `default` or first voice.

    Clients of OpenAI that were not told of a model name one of OpenAI's, and a voice of its: that is no wish. `recorded` are
    ids of recordings that are there, for models that clone. Raises `EventError` that names the choices.
    """
    theirs = model is not None and model.startswith(THEIRS) and all(info.name != model for info in models)
    if theirs:
        model = None
    name = model or (kept.model if kept else models[0].name if models else "")
    info = next((info for info in models if info.name == name), None)
    if info is None:
        names = ", ".join(info.name for info in models) or "none"
        raise EventError("model_not_found", f"No model {name[:64]!r} is loaded. Loaded: {names}.", "session.model")
    if voice and is_recorded(voice):
        _check_recorded(models, info, voice, recorded)
    elif voice and voice not in info.voices:
        if not theirs:
            raise EventError("voice_not_found", f"{name} has no voice {voice[:64]!r}. Voices: {', '.join(info.voices)}.", VOICE)
        voice = None
    default = "default" if "default" in info.voices else info.voices[0]
    stays = kept and (kept.voice in info.voices or (info.clones and kept.voice in recorded))
    return Choice(name, voice or (kept.voice if kept and stays else default))


def _check_recorded(models: list[ModelInfo], info: ModelInfo, voice: str, recorded: Container[str]) -> None:
    """Raises `EventError` unless the model can speak with the recording."""
    if not info.clones:
        able = ", ".join(each.name for each in models if each.clones)
        way = f"choose a model that can: {able}" if able else "load a model that can"
        message = f"{info.name} cannot speak in the voice of a recording. Choose one of its voices, or {way}."
        raise EventError("voice_not_supported", message, VOICE)
    if voice not in recorded:
        raise EventError("voice_gone", "This recording is not here any more. Please give it again.", VOICE)
