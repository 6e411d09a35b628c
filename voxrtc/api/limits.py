"""A bound on what a request may make this process keep in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message, Receive

from voxrtc.api.errors import ApiError

MAX_BODY = 256 * 1024  # bytes; the longest text that is spoken, all of it escaped, is about half of this
MAX_HEADERS = 16 * 1024  # bytes of names and values
MAX_RECORDING = 8 * 1024 * 1024  # bytes of a body that may bring a recording: half a minute, in whatever format


class LimitedRoute(APIRoute):
    """A route that stops reading a body beyond `limit` bytes and answers 413."""

    limit = MAX_BODY

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def limited(request: Request) -> Response:
            return await handler(Request(request.scope, bounded(request.receive, self.limit)))

        return limited


def bounded(receive: Receive, limit: int) -> Receive:
    """What brings a body, up to `limit` bytes; then it raises `ApiError` 413."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise too_large("body", limit)
        return message

    return limited


def too_large(what: str, limit: int) -> ApiError:
    """413: `what` is beyond `limit` bytes."""
    return ApiError(413, "too_large", f"The {what} is larger than {limit // 1024} KiB.")
