"""One wake-up every 20 ms for all who send: to wake up costs more than to send a packet."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from voxrtc.rtc.sound import FRAME_SECONDS

logger = logging.getLogger(__name__)

Step = Callable[[float], None]


class Beat:
    """Calls each step at the multiples of 20 ms of `time.monotonic()`, with the time, for as long as it has joined.

    A beat that is late is not made up for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: dict[Step, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, step: Step) -> None:
        self._steps[step] = None
        if self._timer is None:
            self._next()

    def leave(self, step: Step) -> None:
        """May be called again."""
        self._steps.pop(step, None)

    def _next(self) -> None:
        now = time.monotonic()
        wait = (math.floor(now / FRAME_SECONDS) + 1) * FRAME_SECONDS - now
        self._timer = self._loop.call_later(wait, self._beat)

    def _beat(self) -> None:
        self._timer = None
        now = time.monotonic()
        for step in list(self._steps):
            try:
                step(now)
            except Exception:
                logger.exception("a step failed; it is not called again")
                self.leave(step)
        if self._steps:
            self._next()


_BEATS: WeakKeyDictionary[asyncio.AbstractEventLoop, Beat] = WeakKeyDictionary()


def beat() -> Beat:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    if loop not in _BEATS:
        _BEATS[loop] = Beat(loop)
    return _BEATS[loop]
