"""What engines, by model, and media processes count: `GET /v1/voxrtc/stats`, and for who looks on live."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable
from typing import Any, TypedDict, TypeVar

import msgspec
from fastapi import APIRouter

from voxrtc.api import contract
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.sums import added
from voxrtc.chat.switchboard import Switchboard
from voxrtc.engine.client import EngineLost
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.engine import Stats
from voxrtc.messages.media import MediaStats

# For `metrics`; nobody draws them
HISTOGRAMS = {"Stats": ("first_sounds", "step_times"), "Spoke": ("first_sounds", "answers")}

T = TypeVar("T")


class Counted(TypedDict):
    """Of engines by model, and of media processes together."""

    engines: dict[str, Stats]
    media: MediaStats


def router(engines: Fleet, media: Switchboard) -> APIRouter:
    """The route over engines and media processes."""
    routes = APIRouter()

    told = contract.answers(Counted, without=HISTOGRAMS) | contract.fails(_503="No engine, or no media process.")

    @routes.get("/v1/voxrtc/stats", responses=told)
    async def stats() -> dict[str, Any]:
        return {"engines": _shown(await engines.stats()), "media": _heard(added((await media.stats()).values()))}

    return routes


async def live_stats(engines: Fleet, media: Switchboard) -> dict[str, Any]:
    """The same and when, with no engines while none is ready, and no media process (None) while none is there."""
    counted, heard = await count(engines, media)
    return {"at": time.time(), "engines": _shown(counted), "media": _heard(added(heard.values())) if heard else None}


async def count(engines: Fleet, media: Switchboard) -> tuple[dict[str, Stats], dict[str, MediaStats]]:
    """What engines count that are ready, by model, and media processes that are there, by name. Each has its time to tell."""
    return await asyncio.gather(_if_any(engines.stats()), _if_any(media.stats()))


async def _if_any(told: Awaitable[dict[str, T]]) -> dict[str, T]:
    try:
        return await told
    except (EngineLost, CallRefused):  # there is none
        return {}


# For all eyes: nobody is to be known by the name of a stream. Who began one knows its name, and so its mark.


def _heard(media: MediaStats) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(media)
    for spoke in shown["models"].values():
        for name in HISTOGRAMS["Spoke"]:
            del spoke[name]
    return shown | {"playing": [mark(stream) for stream in media.playing]}


def _shown(engines: dict[str, Stats]) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(engines)
    for counted in shown.values():
        for name in HISTOGRAMS["Stats"]:
            del counted[name]
        for stream in counted["streams"]:
            stream["stream"] = mark(stream["stream"])
    return shown


def mark(stream: str) -> str:
    """A stream's mark for all eyes: CRC-32 of the name of the response that it is a piece of, in hexadecimal.

    A name has 80 random bits, so 32 bits of it tell nothing of the others.
    """
    return f"{zlib.crc32(stream.partition('.')[0].encode()):08x}"
