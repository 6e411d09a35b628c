"""What the parts say to each other: small typed messages, the same in one process and across processes.

Times are seconds of `time.monotonic()`, which all processes of one machine share. Nothing here imports torch or aiortc.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of everything that crosses a process border."""


def encode(message: Message) -> bytes:
    """MessagePack of any message."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes | bytearray, kind: Any) -> Any:
    """The message of union `kind` (`engine.EngineRequest`, `media.MediaReply`, …) in `data`.

    Raises `msgspec.DecodeError` when it is none of them.
    """
    return _decoder(kind).decode(data)


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)
