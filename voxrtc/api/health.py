"""`GET /healthz`: 200 when a model is ready to speak, 503 until then."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from voxrtc.api.errors import RETRY_AFTER
from voxrtc.engine.client import EngineLost
from voxrtc.engine.fleet import Fleet


def router(engines: Fleet) -> APIRouter:
    """The route over the engines."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def health() -> JSONResponse:
        try:
            models, why = await engines.models(), "No model is loaded yet."
        except EngineLost as lost:
            models, why = [], str(lost)
        if models:
            return JSONResponse({"status": "ok", "models": [model.name for model in models]})
        return JSONResponse({"status": "loading", "models": [], "message": why}, 503, {"Retry-After": str(RETRY_AFTER)})

    return routes
