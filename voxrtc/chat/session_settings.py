"""A session object as clients send it: what it may say of sound, turns and replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from voxrtc.chat.turns import Eagerness, TurnSettings

MAX_INSTRUCTIONS = 32_768  # characters


class Voice(msgspec.Struct, frozen=True):
    """A voice by reference."""

    id: str


class Format(msgspec.Struct, frozen=True):
    """Of sound as base64; PCM is 16 bits, little endian, mono, 24 kHz. G.711 is 8 kHz."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[24_000, 8_000] | None = None


class AudioOutput(msgspec.Struct, frozen=True):
    voice: str | Voice | None = None
    format: Format | None = None


class TurnDetection(msgspec.Struct, frozen=True):
    """`server_vad`: a turn begins with speech and ends with silence. `semantic_vad`, which stock clients ask for unless told
    otherwise: how long the silence must be depends on whether the sentence seems finished, and on our `eagerness`.
    """

    type: Literal["server_vad", "semantic_vad"]
    eagerness: Eagerness = "auto"
    threshold: Annotated[float, msgspec.Meta(ge=0.2, le=1.0)] = 0.5
    prefix_padding_ms: Annotated[int, msgspec.Meta(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, msgspec.Meta(ge=100, le=10_000)] = 500
    create_response: bool = True
    interrupt_response: bool = True

    def settings(self) -> TurnSettings:
        return TurnSettings(
            threshold=self.threshold,
            prefix=self.prefix_padding_ms / 1000,
            silence=self.silence_duration_ms / 1000,
            eagerness=self.eagerness if self.type == "semantic_vad" else None,
            respond=self.create_response,
            interrupt=self.interrupt_response,
        )


class AudioInput(msgspec.Struct, frozen=True):
    """`turn_detection` null: the client commits each turn itself (push to talk)."""

    turn_detection: TurnDetection | msgspec.UnsetType | None = msgspec.UNSET
    format: Format | None = None


class Audio(msgspec.Struct, frozen=True):
    input: AudioInput | None = None
    output: AudioOutput | None = None


class Function(msgspec.Struct, frozen=True):
    """A tool, or the choice of one. Tools of other types, like MCP servers, are not for us to call."""

    type: Literal["function"]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    description: str = ""
    parameters: dict[str, Any] | None = None


class ReplySettings(msgspec.Struct, frozen=True):
    """What can be said of a session and of one response: how to answer. None, or nothing: as it was."""

    instructions: Annotated[str, msgspec.Meta(max_length=MAX_INSTRUCTIONS)] | None = None
    output_modalities: list[Literal["audio", "text"]] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | Literal["inf"] | None = None
    tools: Annotated[list[Function], msgspec.Meta(max_length=128)] | None = None
    tool_choice: Literal["auto", "none", "required"] | Function | None = None
    audio: Audio | None = None

    @property
    def voice(self) -> str | None:
        voice = self.audio.output.voice if self.audio and self.audio.output else None
        return voice.id if isinstance(voice, Voice) else voice


class Ours(msgspec.Struct, frozen=True):
    """What only we know. Who says `background` gives way to everybody else: nobody listens there.

    `instructions` say how to speak, as in `/v1/audio/speech`; those of the session proper say how to answer. None: as it was.
    """

    background: bool = False
    instructions: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


class SessionSettings(ReplySettings, frozen=True):
    """The part of a session object that matters here; other fields are accepted and have no effect."""

    type: Literal["realtime"] = "realtime"
    model: str | None = None
    voxrtc: Ours = Ours()

    @property
    def input_format(self) -> Format | None:
        return self.audio.input.format if self.audio and self.audio.input else None

    @property
    def output_format(self) -> Format | None:
        return self.audio.output.format if self.audio and self.audio.output else None

    def turns(self, kept: TurnSettings | None) -> TurnSettings | None:
        """How turns are detected, None for by the client; `kept` where nothing is said about it."""
        wish = self.audio.input.turn_detection if self.audio and self.audio.input else msgspec.UNSET
        if wish is msgspec.UNSET:
            return kept
        return wish.settings() if isinstance(wish, TurnDetection) else None
