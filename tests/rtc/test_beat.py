"""One wake-up for all."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import PATIENCE, until
from voxrtc.rtc.beat import beat


async def test_all_are_called_together_at_multiples_of_20_ms() -> None:
    times: list[list[float]] = [[], []]
    steps = [each.append for each in times]
    for step in steps:
        beat().join(step)
    await until(lambda: len(times[0]) >= 5)
    for step in steps:
        beat().leave(step)
        beat().leave(step)
    assert times[0] == times[1]
    numbers = [int((time + 1e-6) / 0.02) for time in times[0]]
    assert numbers == sorted(set(numbers)), "none twice"
    await asyncio.sleep(0.05)
    assert len(times[0]) == len(numbers), "who has left is not called"


async def test_a_step_that_fails_is_told_of_and_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    called: list[float] = []
    failed: list[float] = []

    def fail(now: float) -> None:
        failed.append(now)
        raise RuntimeError("on purpose")

    beat().join(fail)
    beat().join(called.append)
    await until(lambda: len(called) >= 3)
    beat().leave(called.append)
    assert len(failed) == 1
    assert "on purpose" in caplog.text


async def test_who_joins_within_a_beat_is_called_from_the_next_one_on() -> None:
    times: list[float] = []
    came = asyncio.Event()

    def join(now: float) -> None:
        beat().leave(join)
        times.append(now)
        beat().join(joined)

    def joined(now: float) -> None:
        times.append(now)
        beat().leave(joined)
        came.set()

    beat().join(join)
    await asyncio.wait_for(came.wait(), PATIENCE)
    assert times[0] < times[1]
