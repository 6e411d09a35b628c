"""Which model speaks, and in which voice."""

from __future__ import annotations

from dataclasses import dataclass

from voxrtc.chat.events import EventError
from voxrtc.messages.engine import ModelInfo

THEIRS = "gpt-"  # what names of OpenAI's models begin with


@dataclass(frozen=True)
class Choice:
    """A loaded model and a voice that it has."""

    model: str
    voice: str


def choose(models: list[ModelInfo], model: str | None, voice: str | None, kept: Choice | None = None) -> Choice:
    """What is asked for, else what is `kept`, else the default: the first model, its voice `default` or first voice.

    Clients of OpenAI that were not told of a model name one of OpenAI's, and a voice of its: that is no wish.
    Raises `EventError` that names the choices.
    """
    theirs = model is not None and model.startswith(THEIRS) and all(info.name != model for info in models)
    if theirs:
        model = None
    name = model or (kept.model if kept else models[0].name if models else "")
    info = next((info for info in models if info.name == name), None)
    if info is None:
        names = ", ".join(info.name for info in models) or "none"
        raise EventError("model_not_found", f"No model {name[:64]!r} is loaded. Loaded: {names}.", "session.model")
    if theirs and voice not in info.voices:
        voice = None
    if voice and voice not in info.voices:
        voices = ", ".join(info.voices)
        raise EventError(
            "voice_not_found", f"{name} has no voice {voice[:64]!r}. Voices: {voices}.", "session.audio.output.voice"
        )
    default = "default" if "default" in info.voices else info.voices[0]
    return Choice(name, voice or (kept.voice if kept and kept.voice in info.voices else default))
