"""A bound on what a request may make this process keep in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message, Receive

from voxrtc.api.errors import ApiError

MAX_BODY = 256 * 1024  # bytes; the longest text that is spoken, all of it escaped, is about half of this


class LimitedRoute(APIRoute):
    """A route that stops reading a body beyond `MAX_BODY` and answers 413."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def limited(request: Request) -> Response:
            return await handler(Request(request.scope, _limit(request.receive)))

        return limited


def _limit(receive: Receive) -> Receive:
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY:
            raise too_large("body", MAX_BODY)
        return message

    return limited


def too_large(what: str, limit: int) -> ApiError:
    """413: `what` is beyond `limit` bytes."""
    return ApiError(413, "too_large", f"The {what} is larger than {limit // 1024} KiB.")
