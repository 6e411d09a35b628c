"""Probes. `GET /healthz`: this process is alive. `GET /readyz`: who calls now is let in, heard and answered."""

from __future__ import annotations

from typing import Literal, TypedDict

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from voxrtc.api import contract
from voxrtc.api.drain import MESSAGE, Drain
from voxrtc.api.errors import RETRY_AFTER
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.switchboard import Switchboard
from voxrtc.engine.client import EngineLost
from voxrtc.engine.fleet import Fleet


class Alive(TypedDict):
    status: Literal["ok"]


class Ready(TypedDict):
    status: Literal["ready"]
    models: list[str]


class NotReady(TypedDict):
    status: Literal["not ready"]
    models: list[str]
    message: str


def router(engines: Fleet, media: Switchboard, drain: Drain) -> APIRouter:
    """The routes over the engines and the media processes, until the server drains."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", responses=contract.answers(Alive))
    async def alive() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get("/readyz", responses=contract.answers(Ready) | contract.answers(NotReady, 503))
    async def ready() -> JSONResponse:
        models, why = ([], MESSAGE) if drain.begun else await _models(engines)
        if not why:
            why = await _media(media)
        if not why:
            return JSONResponse({"status": "ready", "models": models})
        return JSONResponse({"status": "not ready", "models": models, "message": why}, 503, {"Retry-After": str(RETRY_AFTER)})

    return routes


async def _models(engines: Fleet) -> tuple[list[str], str]:
    """Those that are ready, and why it is not enough: the default one must be among them."""
    try:
        models = [model.name for model in await engines.models()]
    except EngineLost as lost:
        return [], str(lost)
    return models, "" if engines.default in models else f"The default model, “{engines.default}”, is not ready."


async def _media(media: Switchboard) -> str:
    """Why there can be no call; empty when there can."""
    try:
        await media.stats()
    except CallRefused as refusal:
        return refusal.message
    return ""
