"""`GET /v1/voxrtc/stats`: what engine and media process count, for dashboards and tests."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter

from voxrtc.chat.media_client import MediaClient
from voxrtc.engine.client import EngineClient


def router(engine: EngineClient, media: MediaClient) -> APIRouter:
    """The route over both clients."""
    routes = APIRouter()

    @routes.get("/v1/voxrtc/stats")
    async def stats() -> dict[str, Any]:
        return {"engine": msgspec.to_builtins(await engine.stats()), "media": msgspec.to_builtins(await media.stats())}

    return routes
