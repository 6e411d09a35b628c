"""Word of a stream's way, without its listener's troubles."""

from __future__ import annotations

import asyncio

from voxrtc.rtc.clock import Clock, PlayoutListener


class Soon:
    """Tells the listener in the loop's next turn: what it raises must not reach who takes packets."""

    def __init__(self, listener: PlayoutListener) -> None:
        self._listener = listener

    def started(self, clock: Clock) -> None:
        asyncio.get_running_loop().call_soon(self._listener.started, clock)

    def progress(self, clock: Clock) -> None:
        asyncio.get_running_loop().call_soon(self._listener.progress, clock)

    def stopped(self, clock: Clock) -> None:
        asyncio.get_running_loop().call_soon(self._listener.stopped, clock)
