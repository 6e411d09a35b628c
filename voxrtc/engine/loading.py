"""What is told of a model that is being loaded: to clients often, to the log now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from voxrtc.messages import Progress

TOLD_EVERY = 0.2  # seconds, or
LEAP = 0.05  # of the whole, which is told at once
LOGGED_EVERY = 5.0

log = logging.getLogger(__name__)


class Report:
    """The way of the model `name`, as its loading thread goes it."""

    def __init__(self, name: str, tell: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._tell, self._clock = name, tell, clock
        self._told = self._logged = float("-inf")
        self._done = 0  # as told

    def stage(self, stage: str) -> None:
        """It begins something whose end cannot be foreseen."""
        log.info("%s: %s", self._name, stage)
        self._tell(Progress(state="loading", stage=stage))

    def downloaded(self, done: int, total: int) -> None:
        """So many bytes of its files are there."""
        now, progress = self._clock(), Progress(state="loading", stage="downloading", done=done, total=total)
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
