"""Messages between two processes, one of which started the other: whole byte strings over a socket pair."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


class Line:
    """One end. What fails because the other is closed raises `EOFError` or `OSError`."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """What waits for so long in it raises `TimeoutError`. After that the line may be amid a message, and is of no use."""
        self._end.settimeout(seconds)
        try:
            yield
        finally:
            self._end.settimeout(None)

    def send(self, data: bytes) -> None:
        """Waits until the system has taken all of it."""
        self._end.sendall(len(data).to_bytes(8, "little"))
        self._end.sendall(data)

    def receive(self) -> bytearray:
        """The next one."""
        return self._read(int.from_bytes(self._read(8), "little"))

    def close(self) -> None:
        self._end.close()

    def _read(self, count: int) -> bytearray:
        data = bytearray(count)
        left = memoryview(data)
        while left:
            if not (got := self._end.recv_into(left)):
                raise EOFError
            left = left[got:]
        return data
