"""Waiting for what comes about elsewhere: in a task, a thread, another process. Where it does not, the test fails."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 60.0  # seconds; reached only when something is broken
LOOK_EVERY = 0.01  # seconds


def eventually(look: Callable[[], Found], within: float = PATIENCE) -> Found:
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"it did not come about in {within:.0f} s"
        time.sleep(LOOK_EVERY)
    return found


async def until(look: Callable[[], Found], within: float = PATIENCE, every: float = LOOK_EVERY) -> Found:
    """The same, while the event loop goes on. `every` 0: it looks whenever all others have had their turn."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"it did not come about in {within:.0f} s"
        await asyncio.sleep(every)
    return found


async def answered(
    ask: Callable[[], Awaitable[Found]], *not_yet: type[Exception], within: float = PATIENCE, every: float = LOOK_EVERY
) -> Found:
    """What `ask` answers, once it answers something. Of these exceptions none is an answer."""
    deadline = time.monotonic() + within
    while True:
        with contextlib.suppress(*not_yet):
            if found := await ask():
                return found
        assert time.monotonic() < deadline, f"it did not come about in {within:.0f} s"
        await asyncio.sleep(every)
