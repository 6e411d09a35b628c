"""Between an engine and its detokenizer, where that has a process of its own: a question at a time, over a socket pair."""

from __future__ import annotations

import msgspec

from voxrtc.messages import Message


class Array(msgspec.Struct, frozen=True):
    """A tensor of the host."""

    data: memoryview
    shape: tuple[int, ...]
    kind: str  # as numpy names it: int64, float32


class Fresh(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream begins."""

    seed: str  # in decimal, since it may be larger than MessagePack's integers
    voice: int | None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The next frames of a stream [n, width]."""

    stream: int
    frames: Array
    final: bool
    fresh: Fresh | None  # None: it has begun


class Decode(Message):
    """Make samples of frames. Answered by `Decoded`."""

    parts: list[Part]
    voices: dict[int, list[Array]]  # that were not told of before: what `Detokenizer.voice_in` makes them of
    forget: list[int]  # voices that nobody has any more


class End(Message):
    """Nothing more is to come of a stream. No answer."""

    stream: int


class Sound(msgspec.Struct, frozen=True, kw_only=True):
    """Float32 samples of a part, or why there are none."""

    samples: memoryview = memoryview(bytearray())
    error: str = ""


class Decoded(Message):
    """Of each part, in order."""

    sounds: list[Sound]
    memory: float  # GB that the process holds


class Ready(Message):
    """The first word: questions are answered from now on."""

    memory: float


class Unfit(Message):
    """Or: the detokenizer cannot be loaded. The process ends."""

    message: str


DetokenizerRequest = Decode | End
DetokenizerReply = Decoded | Ready | Unfit
