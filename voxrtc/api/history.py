"""The last hours, a minute at a time, in memory: `GET /v1/voxrtc/history`."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypedDict, TypeVar

import msgspec
from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from voxrtc.api import contract
from voxrtc.chat.sums import added
from voxrtc.messages.engine import Stats
from voxrtc.messages.media import MediaStats
from voxrtc.recent import Latency

MINUTE = 60.0  # seconds
KEPT = 12 * 60  # minutes

K = TypeVar("K")
Counted = tuple[dict[str, Stats], dict[str, MediaStats]]


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """A model's minute that ended `at` (seconds since 1970). `first_sounds`: streams that began to sound in it; `streams`:
    those that were there when it ended."""

    at: float
    model: str
    ttfa_p50_ms: float | None
    ttfa_p95_ms: float | None
    turn_p50_ms: float | None
    turn_p95_ms: float | None
    first_sounds: int
    streams: int
    underruns: int
    listeners: int  # of all models


class Minutes(TypedDict):
    minutes: list[Minute]


class History:
    """Asks once a minute (`keep`), and knows the last `KEPT` minutes."""

    def __init__(self, ask: Callable[[], Awaitable[Counted]], clock: Callable[[], float] = time.time) -> None:
        self._ask, self._clock = ask, clock
        self._minutes: deque[list[Minute]] = deque(maxlen=KEPT)
        self._began: Counter[str] = Counter()  # streams so far that sounded, by model
        self._dry: Counter[tuple[str, str]] = Counter()  # underruns so far, by model and media process

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(MINUTE)
            self.note(*await self._ask())

    def note(self, engines: dict[str, Stats], media: dict[str, MediaStats]) -> None:
        """A minute is over, of engines by model and media processes by name."""
        self._minutes.append([self._minute(model, engine, media) for model, engine in engines.items()])

    @property
    def minutes(self) -> list[Minute]:
        """The oldest first."""
        return [minute for minutes in self._minutes for minute in minutes]

    def _minute(self, model: str, engine: Stats, media: dict[str, MediaStats]) -> Minute:
        together = added(media.values()) if media else None
        spoke = together.models.get(model) if together else None
        turn = spoke.turn if spoke else Latency()
        return Minute(
            at=round(self._clock(), 1),
            model=model,
            ttfa_p50_ms=engine.ttfa.p50_ms,
            ttfa_p95_ms=engine.ttfa.p95_ms,
            turn_p50_ms=turn.p50_ms,
            turn_p95_ms=turn.p95_ms,
            first_sounds=_since(self._began, model, sum(engine.first_sounds.counts)),
            streams=len(engine.streams),
            underruns=sum(self._underruns(model, name, stats) for name, stats in media.items()),
            listeners=together.peers if together else 0,
        )

    def _underruns(self, model: str, process: str, stats: MediaStats) -> int:
        now = stats.models[model].underruns if model in stats.models else 0
        return _since(self._dry, (model, process), now)


def _since(counts: Counter[K], of: K, now: int) -> int:
    """How many more since a process was last asked."""
    before, counts[of] = counts[of], now
    return max(0, now - before)  # another one begins at nothing


def router(history: History) -> APIRouter:
    """The route over the history."""
    routes = APIRouter()

    told = contract.sends({"application/json": contract.shape(Minutes), "text/csv": contract.TEXT})

    @routes.get("/v1/voxrtc/history", response_model=None, responses=told)
    async def minutes(format: Literal["json", "csv"] = "json") -> Response:
        rows: list[dict[str, Any]] = msgspec.to_builtins(history.minutes)
        if format == "json":
            return JSONResponse({"minutes": rows})
        name = {"Content-Disposition": "attachment; filename=voxrtc-history.csv"}
        return Response(_csv(rows), media_type="text/csv", headers=name)

    return routes


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, Minute.__struct_fields__)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
