"""`GET /v1/voxrtc/stats`: what engines, by model, and media process count, for dashboards and tests."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter

from voxrtc.chat.media_client import MediaClient
from voxrtc.engine.fleet import Fleet


def router(engines: Fleet, media: MediaClient) -> APIRouter:
    """The route over engines and media process."""
    routes = APIRouter()

    @routes.get("/v1/voxrtc/stats")
    async def stats() -> dict[str, Any]:
        return {"engines": msgspec.to_builtins(await engines.stats()), "media": msgspec.to_builtins(await media.stats())}

    return routes
