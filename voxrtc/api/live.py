"""`GET /v1/voxrtc/live`: what goes on, as server-sent events (WHATWG HTML, section 9.2) of a `Feed`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from voxrtc.api import contract
from voxrtc.api.errors import ApiError
from voxrtc.api.feed import Feed, Full, Viewer

PATIENCE = 20.0  # seconds that a viewer may take nothing; then the place is somebody else's
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would hold it back


def router(feed: Feed) -> APIRouter:
    """The route over the feed."""
    routes = APIRouter()

    told = contract.sends({"text/event-stream": contract.EVENTS}) | contract.fails(_503="Many are looking already.")

    @routes.get("/v1/voxrtc/live", response_class=StreamingResponse, responses=told)
    async def live() -> StreamingResponse:
        places = contextlib.ExitStack()
        try:
            viewer = places.enter_context(feed.viewer())
        except Full:
            raise ApiError(503, "too_many_viewers", "Many are looking already. Please try again in a minute.") from None
        return _Events(viewer, places)

    return routes


class _Events(StreamingResponse):
    """Of one viewer, until they leave, or take nothing for `PATIENCE`."""

    def __init__(self, viewer: Viewer, places: contextlib.ExitStack) -> None:
        super().__init__(self._news(viewer), media_type="text/event-stream", headers=HEADERS)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._places:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def patient(message: Message) -> None:
            async with asyncio.timeout(PATIENCE):
                await send(message)

        with contextlib.suppress(TimeoutError):
            await super().stream_response(patient)

    async def _news(self, viewer: Viewer) -> AsyncIterator[bytes]:
        while news := await viewer.next():
            yield news
