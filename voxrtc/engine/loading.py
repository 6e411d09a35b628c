"""A model that is being loaded: what is told of it, to clients often, to the log now and then."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from voxrtc.messages.model import Progress

TOLD_EVERY = 0.2  # seconds, or
LEAP = 0.05  # of the whole, which is told at once
LOGGED_EVERY = 5.0
STEADY = 2.0  # seconds over which the rate of a download is averaged, about

log = logging.getLogger(__name__)


class Report:
    """The way of the model `name`, as its loading thread goes it."""

    def __init__(self, name: str, tell: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._tell, self._clock = name, tell, clock
        self._told = self._logged = float("-inf")
        self._done = 0  # as told
        self._rate = Rate(clock)

    def stage(self, stage: str) -> None:
        """It begins something whose end cannot be foreseen."""
        log.info("%s: %s", self._name, stage)
        self._tell(Progress(state="loading", stage=stage))

    def downloaded(self, done: int, total: int) -> None:
        """So many bytes of its files are there."""
        now, rate = self._clock(), self._rate.arrived(done)
        progress = Progress(state="loading", stage="downloading", done=done, total=total, rate=rate)
        if now - self._logged >= LOGGED_EVERY or done == total:
            self._logged = now
            log.info("%s: %s", self._name, progress.words)
        if now - self._told >= TOLD_EVERY or done - self._done >= LEAP * total or done == total:
            self._told, self._done = now, done
            self._tell(progress)

    def failed(self, message: str) -> None:
        """It does not go on. `message` says what to do."""
        log.error("%s could not be loaded. %s", self._name, message)
        self._tell(Progress(state="failed", message=message))


class Rate:
    """How many bytes of a download come in a second, of late."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: tuple[float, int] | None = None  # a moment, and the bytes that were there then
        self._rate = 0.0

    def arrived(self, done: int) -> float:
        """So many are there now; what was there at first counts for nothing."""
        now = self._clock()
        since, before = self._since or (now, done)
        self._since = since, before
        if (passed := now - since) >= TOLD_EVERY:
            latest = (done - before) / passed
            share = 1 - math.exp(-passed / STEADY) if self._rate else 1.0
            self._rate += share * (latest - self._rate)
            self._since = now, done
        return self._rate
