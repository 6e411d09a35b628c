"""Sound in events: base64 of PCM16 (24 kHz), or of G.711 (8 kHz; ITU-T G.711, tables 1a and 2a)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from voxrtc.chat.events import EventError
from voxrtc.chat.session_settings import Format
from voxrtc.rtc.microphone import BLOCK
from voxrtc.rtc.microphone import RATE as HEARD_RATE
from voxrtc.rtc.resampler import Resampler
from voxrtc.rtc.sound import SampleQueue, Samples

PIECE = 4_096  # samples


def _mu_law() -> Samples:
    """The sample of each of the 256 codes."""
    code = ~np.arange(256) & 0xFF
    size = (((code & 0xF) << 3) + 0x84 << (code >> 4 & 7)) - 0x84
    return np.where(code & 0x80, -size, size).astype(np.int16)


def _a_law() -> Samples:
    code = np.arange(256) ^ 0x55
    segment, step = code >> 4 & 7, (code & 0xF) << 4
    size = np.where(segment, (step + 0x108) << np.maximum(segment - 1, 0), step + 8)
    return np.where(code & 0x80, size, -size).astype(np.int16)


class _Law:
    """A code a sample: to code one is to find the nearest that a code stands for."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        order = np.argsort(samples, kind="stable")
        values = samples[order].astype(np.int32)
        self._codes, self._borders = order.astype(np.uint8), (values[1:] + values[:-1]) / 2

    def codes(self, samples: Samples) -> npt.NDArray[np.uint8]:
        return self._codes[np.searchsorted(self._borders, samples)]


_LAWS = {"audio/pcmu": _Law(_mu_law()), "audio/pcma": _Law(_a_law())}


def rate_of(format: Format) -> int:
    """Hz."""
    return 24_000 if format.type == "audio/pcm" else 8_000


def describe(format: Format) -> dict[str, str | int]:
    """In a session object."""
    return {"type": format.type, "rate": 24_000} if format.type == "audio/pcm" else {"type": format.type}


def encode(samples: Samples, format: Format) -> str:
    """Samples at the format's rate, for an event."""
    law = _LAWS.get(format.type)
    return base64.b64encode((law.codes(samples) if law else samples).tobytes()).decode()


def decode(audio: str, format: Format, param: str) -> Samples:
    """The samples in an event, at the format's rate. Raises `EventError`."""
    try:
        data = base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EventError("invalid_value", f"This is no base64 ({error}).", param) from error
    if law := _LAWS.get(format.type):
        return law.samples[np.frombuffer(data, np.uint8)]
    if len(data) % 2:
        raise EventError("invalid_value", "Sound as PCM16 has an even number of bytes.", param)
    return np.frombuffer(data, "<i2")


class Blocks:
    """What a client appends, in blocks like a microphone's (16 kHz). Those that are not full yet wait."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self._resampler, self._queue = Resampler(HEARD_RATE), SampleQueue()

    def add(self, audio: str, param: str) -> list[Samples]:
        """The blocks that are full now. Raises `EventError`."""
        return self.push(decode(audio, self.format, param))

    def push(self, samples: Samples) -> list[Samples]:
        """As `add`, of samples at the format's rate."""
        self._queue.push(self._resampler(samples.tobytes(), rate_of(self.format)))
        return [self._queue.pop(BLOCK) for _ in range(len(self._queue) // BLOCK)]

    def rest(self) -> list[Samples]:
        """What waits, filled up with silence; what is added next is another sound."""
        self._queue.push(self._resampler.flush())
        self._resampler = Resampler(HEARD_RATE)
        rest = self._queue.pop(len(self._queue))
        blocks = np.concatenate([rest, np.zeros(-len(rest) % BLOCK, np.int16)])
        return list(blocks.reshape(-1, BLOCK))


def blocks_of(samples: Samples, format: Format) -> Iterator[Samples]:
    """All of a sound in blocks, made as they are asked for."""
    blocks = Blocks(format)
    for at in range(0, len(samples), PIECE):
        yield from blocks.push(samples[at : at + PIECE])
    yield from blocks.rest()
