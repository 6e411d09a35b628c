"""A minute at a time, bounded, as JSON and as CSV."""

from __future__ import annotations

import csv
import io

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from tests.fake_engine import ToneTransport, tones
from voxrtc.api import history
from voxrtc.api.history import KEPT, History
from voxrtc.messages.calls import Spoke
from voxrtc.messages.engine import Stats
from voxrtc.messages.media import MediaStats
from voxrtc.recent import MOST, Histogram, Latency

pytestmark = pytest.mark.anyio
NONE = Latency()


async def engine(ttfa: Latency = NONE, began: int = 0) -> dict[str, Stats]:
    """`began`: streams that have ever begun to sound."""
    (stats,) = (await tones(ToneTransport()).stats()).values()
    sounds = Histogram((0.1, 0.2), (0, began - began // 2, began // 2), 0.15 * began)
    return {"tone": msgspec.structs.replace(stats, ttfa=ttfa, first_sounds=sounds)}


def media(**underruns: int) -> dict[str, MediaStats]:
    """Of processes, by their names."""
    return {
        name: MediaStats(
            call="",
            peers=2,
            calls=5,
            underruns=times,
            tasks=1,
            models={"tone": Spoke(responses=9, underruns=times, ttfa=Latency(), turn=Latency(3, 800.0, 900.0))},
        )
        for name, times in underruns.items()
    }


async def nobody() -> history.Counted:
    raise AssertionError("not asked here")


async def test_a_minute_has_its_own_underruns_and_latencies() -> None:
    past = History(nobody, lambda: 60.0)
    past.note(await engine(Latency(7, 130.0, 310.0), began=7), media(a=4))
    past.note(await engine(), media(a=6))
    past.note(await engine(), media(a=1))  # another process
    past.note(await engine(), {})  # none
    assert [minute.underruns for minute in past.minutes] == [4, 2, 0, 0]
    first = past.minutes[0]
    assert (first.at, first.model, first.first_sounds, first.listeners) == (60.0, "tone", 7, 2)
    assert (first.ttfa_p50_ms, first.ttfa_p95_ms, first.turn_p50_ms) == (130.0, 310.0, 800.0)


async def test_streams_are_all_counted_however_many_begin_in_a_minute() -> None:
    past = History(nobody)
    for began in (7, 2007, 2007, 3, 5):  # amid them another process
        past.note(await engine(Latency(min(began, MOST), 130.0, 310.0), began), {})
    assert [minute.first_sounds for minute in past.minutes] == [7, 2000, 0, 0, 2]


async def test_of_two_processes_one_may_begin_anew() -> None:
    past = History(nobody)
    for each in (media(a=4, b=9), media(a=5, b=1), media(b=2), media(a=6, b=2)):
        past.note(await engine(), each)
    assert [minute.underruns for minute in past.minutes] == [13, 1, 1, 1]
    assert [minute.listeners for minute in past.minutes] == [4, 4, 2, 4]
    assert past.minutes[0].turn_p50_ms == 800.0


async def test_it_is_bounded() -> None:
    past, stats = History(nobody), await engine()
    for _ in range(KEPT + 10):
        past.note(stats, {})
    assert len(past.minutes) == KEPT


async def test_it_is_told_as_json_and_as_csv() -> None:
    past, app = History(nobody, lambda: 60.0), FastAPI()
    past.note(await engine(Latency(7, 130.0, 310.0)), media(a=4))
    app.include_router(history.router(past))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://voxrtc") as client:
        (row,) = (await client.get("/v1/voxrtc/history")).json()["minutes"]
        answer = await client.get("/v1/voxrtc/history?format=csv")
        assert (await client.get("/v1/voxrtc/history?format=xml")).status_code == 422
    assert answer.headers["content-type"].startswith("text/csv")
    (same,) = csv.DictReader(io.StringIO(answer.text))
    assert same == {name: "" if value is None else str(value) for name, value in row.items()}
    assert row["ttfa_p95_ms"] == 310.0
