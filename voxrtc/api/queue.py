"""`GET /v1/voxrtc/queue`: stand in line for a call, as server-sent events. Who hangs up here gives their place in line away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from voxrtc.api import contract
from voxrtc.api.address import address_of
from voxrtc.api.live import HEADERS
from voxrtc.api.waiting import CALLED, Ticket, WaitingRoom

LOOK_EVERY = 2.0  # seconds; also how soon it is noticed that somebody behind a proxy left


def router(room: WaitingRoom) -> APIRouter:
    """The route over the places of a public host.

    Events are `{"position", "wait_ms"}` while one waits, and at last `{"ticket", "within_ms"}`: the ticket goes with the call,
    as `?ticket=`, within that time.
    """
    routes = APIRouter(tags=["realtime"])

    told = contract.sends({"text/event-stream": contract.EVENTS}) | contract.fails(_429="You wait already.", _503="Many wait.")

    @routes.get("/v1/voxrtc/queue", response_class=StreamingResponse, responses=told)
    async def queue(request: Request) -> StreamingResponse:
        moved = asyncio.Event()
        return _Line(room, room.join(address_of(request), moved.set), moved)

    return routes


class _Line(StreamingResponse):
    """Stands in line for as long as somebody reads."""

    def __init__(self, room: WaitingRoom, ticket: Ticket, moved: asyncio.Event) -> None:
        super().__init__(_told(room, ticket, moved), headers=HEADERS, media_type="text/event-stream")
        self._room, self._ticket = room, ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._ticket.called is None:
                self._room.leave(self._ticket)


async def _told(room: WaitingRoom, ticket: Ticket, moved: asyncio.Event) -> AsyncGenerator[str]:
    while ticket.called is None:
        place = room.place(ticket)
        yield _event({"position": place, "wait_ms": round(1000 * room.wait(place))})
        moved.clear()
        try:
            await asyncio.wait_for(moved.wait(), LOOK_EVERY)
        except TimeoutError:
            room.look()
    yield _event({"ticket": ticket.number, "within_ms": round(1000 * CALLED)})


def _event(fields: dict[str, str | int]) -> str:
    return f"data: {json.dumps(fields)}\n\n"
