"""How long an event loop stood. A packet is due every 20 ms, so whatever holds a loop up is heard."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

EVERY = 0.1  # seconds between two looks
LONG = 0.1  # seconds that count: five packets late
TOLD = 0.3  # seconds that the log tells of
AGAIN = 10.0  # seconds until it tells the next time

log = logging.getLogger(__name__)


class Stood(msgspec.Struct, frozen=True):
    """How often it stood so far, and for how many seconds in all."""

    times: int = 0
    seconds: float = 0.0


class Stalls:
    """Looks whether the running loop wakes up when it is to. `work` is what the loop's thread has computed (s): by that the log
    says whether this process held itself up, or the machine did."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.stood = Stood()
        self._now, self._work, self._sleep = now, work, sleep
        self._quiet_until = float("-inf")

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            began, worked = self._now(), self._work()
            await self._sleep(EVERY)
            now = self._now()
            if (late := now - began - EVERY) >= LONG:
                self._note(now, late, self._work() - worked)

    def _note(self, now: float, late: float, worked: float) -> None:
        self.stood = Stood(self.stood.times + 1, self.stood.seconds + late)
        if late < TOLD or now < self._quiet_until:
            return
        self._quiet_until = now + AGAIN
        times, seconds = self.stood.times, self.stood.seconds
        message = "the event loop stood for %.2f s, of which it computed %.2f s (%d times %.1f s so far)"
        log.warning(message, late, min(worked, late), times, seconds)
