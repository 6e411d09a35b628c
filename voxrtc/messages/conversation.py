"""What an engine is told of a conversation, and tells of its reply, when its model hears and answers by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from voxrtc.messages import Message

# --- turns ---


class Words(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What was typed, or of which only the words are left. A system's are how to answer."""

    role: Literal["system", "user", "assistant"]
    text: str


class Heard(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What a person said: the sound that came ahead as `Hear`. Its words, if they are known, stand for a sound that is gone."""

    hearing: str
    text: str = ""


class Replied(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """An earlier reply of the same model: the frames of its `Chunk`s, of which `heard` seconds were heard; None: all."""

    frames: bytes
    heard: float | None = None


ConversationTurn = Words | Heard | Replied


def hearings(conversation: Iterable[ConversationTurn]) -> list[str]:
    """The sounds that are answered in a conversation."""
    return [turn.hearing for turn in conversation if isinstance(turn, Heard)]


# --- to an engine ---


class Hear(Message):
    """The next sound of what a person says: PCM16 little endian, mono; nothing follows a `final` one.

    The engine hears it at once, so that little is left to do when the person has finished. It keeps what it heard for the
    conversation's later turns, as long as there is room and its client is there; `Forget` lets go of it. What cannot be heard
    is told to the stream that needs it.
    """

    hearing: str  # a fresh id chosen by the caller; what is before its last "/" names the conversation that it belongs to
    pcm: bytes
    sample_rate: int
    first: bool = False  # where the first is lost with an engine, the rest is not taken for the whole
    final: bool = False


class Forget(Message):
    """Nobody will ask for this hearing any more. Unknown ones are ignored."""

    hearing: str


# --- from it ---


class Wrote(Message):
    """More of a reply's words: whole characters, a little before they are spoken. `Chunk.spoken` counts in them."""

    stream: str
    text: str
