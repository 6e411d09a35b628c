"""`/v1/voxrtc/crowd` and `/v1/voxrtc/policy`: virtual listeners, and the policy that plans for everybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from voxrtc.api import contract
from voxrtc.api.errors import ApiError
from voxrtc.api.limits import LimitedRoute
from voxrtc.api.loading import as_json
from voxrtc.crowd.crowd import Crowd, NoModel, State

OFF = "This server has no virtual listeners. Start your own, or this one with --crowd 64."


class CrowdWish(BaseModel):
    """How many virtual listeners there are to be, and WebRTC peers among them."""

    listeners: Annotated[int, Field(ge=0, strict=True)]
    peers: Annotated[int, Field(ge=0, strict=True)] = 0
    model: str = Field("", max_length=200)


class PolicyWish(BaseModel):
    policy: Literal["playout", "fifo", "two_phase"]


def looked_at(crowd: Crowd) -> Callable[[], Awaitable[State]]:
    """What is told to those who look on live."""

    async def look() -> State:
        return crowd.look()

    return look


def router(crowd: Crowd) -> APIRouter:
    """The routes over the crowd. Looking is always allowed."""
    routes = APIRouter(prefix="/v1/voxrtc", tags=["crowd"], route_class=LimitedRoute)

    def allowed() -> None:
        if not crowd.most:
            raise ApiError(403, "crowd_off", OFF)

    looks = contract.answers(State)
    resized = looks | contract.fails(_403="Virtual listeners are off here.", _404="There is no such model.")
    changes = [Depends(as_json), Depends(allowed)]

    @routes.get("/crowd", responses=looks)
    async def look() -> dict[str, Any]:
        return dict(msgspec.to_builtins(crowd.look()))

    @routes.post("/crowd", dependencies=changes, responses=resized)
    async def resize(wish: CrowdWish) -> dict[str, Any]:
        for field, wanted, most in (("listeners", wish.listeners, crowd.most), ("peers", wish.peers, crowd.most_peers)):
            if wanted > most:
                raise ApiError(400, "invalid_request", f"`{field}`: At most {most} here.", field)
        try:
            crowd.resize(wish.listeners, wish.peers, wish.model)
        except NoModel as none:
            raise ApiError(404, "model_not_found", str(none), "model") from none
        return dict(msgspec.to_builtins(crowd.look()))

    @routes.post("/policy", dependencies=changes, responses=looks)
    async def switch(wish: PolicyWish) -> dict[str, Any]:
        crowd.plan_by(wish.policy)
        return dict(msgspec.to_builtins(crowd.look()))

    return routes
