"""`GET /v1/models`: what can speak here, in OpenAI's shape; our own fields stand under `voxrtc`."""

from __future__ import annotations

import time
from typing import Any, Literal, TypedDict

import msgspec
from fastapi import APIRouter

from voxrtc.api import contract
from voxrtc.api.errors import ApiError
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.model import ModelInfo


class Model(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    voxrtc: ModelInfo


class Models(TypedDict):
    object: Literal["list"]
    data: list[Model]


def router(engines: Fleet) -> APIRouter:
    """The routes over the engines."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    created = int(time.time())  # OpenAI's field; the nearest that we know is when this server began to offer them

    def card(model: ModelInfo) -> dict[str, Any]:
        ours = msgspec.to_builtins(model)
        return {"id": model.name, "object": "model", "created": created, "owned_by": "voxrtc", "voxrtc": ours}

    @routes.get("", responses=contract.answers(Models))
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [card(model) for model in await engines.models()]}

    missing = contract.fails(_404="There is no such model.")

    @routes.get("/{name:path}", responses=contract.answers(Model) | missing)
    async def get_model(name: str) -> dict[str, Any]:
        models = await engines.models()
        for model in models:
            if model.name == name:
                return card(model)
        known = ", ".join(model.name for model in models)
        raise ApiError(404, "model_not_found", f"There is no model `{name}` here. Loaded: {known}.", "model")

    return routes
