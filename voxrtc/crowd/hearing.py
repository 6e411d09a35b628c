"""An utterance as a listener that is no person hears it: asked for, waited for, played at the speed of speech."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from voxrtc.crowd.player import Player
from voxrtc.engine.client import News, StreamFailed
from voxrtc.messages.engine import Chunk, Generate, Playout, Queued


class Speaks(Protocol):
    """An engine, or all of them."""

    def generate(self, request: Generate) -> AsyncGenerator[News, None]: ...

    def report(self, playout: Playout) -> None: ...


@dataclass
class Hearing:
    """What one listener heard, and when."""

    scheduled: float  # when its request arrives, by plan
    player: Player = field(default_factory=Player)
    arrivals: list[tuple[float, float]] = field(default_factory=list)  # of chunks, with their seconds of sound
    place: int = 0  # in the queue, as last told
    ended: float | None = None  # when the engine said that it was over
    failure: str = ""  # `Failed.code`
    retry_after: float | None = None  # and what it came with

    @property
    def done(self) -> bool:
        """All of it was heard."""
        return self.ended is not None and not self.failure

    @property
    def ttfa(self) -> float | None:
        """Seconds from the planned arrival to the first sound."""
        return self.arrivals[0][0] - self.scheduled if self.arrivals else None

    def slack(self, now: float) -> float:
        """Seconds of sound still to be played."""
        return max(0.0, self.player.ends - now) if self.arrivals else 0.0

    def dry(self, now: float) -> bool:
        """It has nothing to play, though there is more to come."""
        return bool(self.arrivals) and self.ended is None and now > self.player.ends

    def hear(self, now: float, seconds: float) -> None:
        """A chunk arrives."""
        self.arrivals.append((now, seconds))
        self.player.push(now, seconds)


async def hear(
    engines: Speaks,
    request: Generate,
    hearing: Hearing,
    clock: Callable[[], float] = time.monotonic,
    heard: Callable[[], None] = lambda: None,
) -> None:
    """Have it spoken and play it, telling the engine how far the player is, until the engine is done with it.

    `heard` is told after each chunk. A failure is written down.
    """
    try:
        async with aclosing(engines.generate(request)) as replies:
            async for reply in replies:
                if isinstance(reply, Queued):
                    hearing.place = reply.position
                if not isinstance(reply, Chunk):
                    continue
                now = clock()
                hearing.hear(now, len(reply.pcm) / 2 / reply.sample_rate)
                played = hearing.player.played(now)
                engines.report(Playout(stream=request.stream, played=played, at=now, running=True))
                heard()
    except StreamFailed as failed:
        hearing.failure, hearing.retry_after = failed.code, failed.retry_after
    hearing.ended = clock()
