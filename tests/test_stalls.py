"""An event loop that stands: counted, and told, but not too often."""

from __future__ import annotations

import asyncio
import time

import pytest

from voxrtc.stalls import AGAIN, EVERY, LONG, Stalls, Stood

pytestmark = pytest.mark.anyio


async def watched(late: list[float], worked: float = 0.0) -> Stood:
    """By a loop that wakes up so many seconds late, one time after another, and computes meanwhile."""
    now, work, rest = 100.0, 0.0, list(late)

    async def sleep(seconds: float) -> None:
        nonlocal now, work
        if not rest:
            raise asyncio.CancelledError
        now, work = now + seconds + rest.pop(0), work + worked

    stalls = Stalls(lambda: now, lambda: work, sleep)
    with pytest.raises(asyncio.CancelledError):
        await stalls.watch()
    return stalls.stood


async def test_a_loop_that_stood_is_counted_and_one_that_is_a_little_late_is_not() -> None:
    assert await watched([0.0, LONG - 0.001, 0.02]) == Stood()
    stood = await watched([0.0, 0.5, 0.0, 0.2])
    assert (stood.times, round(stood.seconds, 6)) == (2, 0.7)


async def test_the_log_tells_how_long_and_whether_it_computed(caplog: pytest.LogCaptureFixture) -> None:
    await watched([0.5], worked=0.45)
    await watched([0.5])
    first, second = caplog.messages
    assert "stood for 0.50 s, of which it computed 0.45 s" in first
    assert "stood for 0.50 s, of which it computed 0.00 s" in second


async def test_a_loop_that_stands_again_and_again_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    times = int(2.5 * AGAIN / (EVERY + 0.5))
    assert (await watched([0.5] * times)).times == times
    assert len(caplog.messages) == 3


async def test_a_real_loop_that_is_held_up_notices() -> None:
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch())
    await asyncio.sleep(0)
    time.sleep(2.5 * EVERY)  # it is this that is tried
    await asyncio.sleep(0.01)
    watching.cancel()
    assert stalls.stood.times == 1 and stalls.stood.seconds >= LONG
