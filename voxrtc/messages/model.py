"""To and from an engine, about its model: what it is, how far it is, and whether it may go."""

from __future__ import annotations

from typing import Literal

import msgspec

from voxrtc.messages import Message

# --- to it -------------------------------------------------------------------------------------------------------------


class Watch(Message):
    """Ask to be told of the engine's `Progress`, now and whenever it changes. What a client says first."""


class Unload(Message):
    """Ask the engine to end, unless somebody listens. `Unloaded` answers."""

    call: int


class GetUse(Message):
    """Ask for `Use`. An engine answers at once, however far it is with its model."""

    call: int


class GetModels(Message):
    """Ask a ready engine for `Models`."""

    call: int


# --- from it -----------------------------------------------------------------------------------------------------------


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its card in `models/` describes it."""

    name: str
    title: str
    description: str
    family: str
    languages: list[str]
    voices: list[str]
    licence: str
    sample_rate: int
    frame_rate: float
    kind: Literal["text to speech", "speech to speech", "full duplex"] = "text to speech"
    running: bool = False  # takes text while it speaks
    clones: bool = False  # speaks in the voice of a recording
    instructed: bool = False  # takes words that say how to speak
    parameters: int = 0
    link: str = ""


class Progress(Message):
    """How far an engine is with its model.

    `done` and `total` are bytes of the download, `rate` is how many come in a second; all are 0 in other stages, and until the
    hub has said how much it is.
    """

    state: Literal["loading", "ready", "failed", "unloaded"]
    stage: str = ""  # while loading: starting | downloading | reading | warming up
    done: int = 0
    total: int = 0
    rate: float = 0
    message: str = ""  # when it failed: why, and what to do
    info: ModelInfo | None = None  # when it is ready

    @property
    def words(self) -> str:
        """In words, to stand in a sentence."""
        if self.state == "loading" and self.total:
            return f"{self.stage}, {self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB"
        return self.stage if self.state == "loading" else self.state


class Unloaded(Message):
    """The answer to `Unload`: the engine ends now, unless it is needed for `live` streams."""

    call: int
    live: int


class Use(Message):
    """What an engine's process is good for: the `live` streams of all clients, when one last began or ended, and the GB it
    holds, of the GPU's memory if it runs on one."""

    call: int
    live: int
    last: float
    memory: float


class Models(Message):
    """The loaded models, the default one first."""

    call: int
    models: list[ModelInfo]
