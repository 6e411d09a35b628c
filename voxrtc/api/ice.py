"""`GET /v1/voxrtc/ice`: the TURN servers that a page's next call may go through, with credentials that live for a while."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec
from fastapi import APIRouter, Response

from voxrtc.api import contract
from voxrtc.messages.media import IceServer
from voxrtc.rtc.turn import Relays


class Ice(TypedDict):
    """`keep` are seconds until the page asks again; `gather`: it gives all its addresses with the offer; `udp`: whether it gets
    here, null where nobody knows; `message` says why there are no servers."""

    iceServers: list[IceServer]
    keep: float
    gather: bool
    udp: bool | None
    message: str


def router(relays: Relays, relayed: bool) -> APIRouter:
    """The route. `relayed`: no UDP gets to this server. It goes through a relay itself, which has to be told of a browser's
    addresses beforehand."""
    routes = APIRouter(tags=["realtime"])

    @routes.get("/v1/voxrtc/ice", responses=contract.answers(Ice))
    async def ice(response: Response) -> dict[str, Any]:
        response.headers["Cache-Control"] = "no-store"
        servers = msgspec.to_builtins(await relays.servers())
        return {
            "iceServers": servers,
            "keep": relays.keep,
            "gather": relayed and bool(servers),
            "udp": False if relayed else None,
            "message": relays.trouble,
        }

    return routes
