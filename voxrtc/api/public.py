"""What a public host bounds on all routes, also Gradio's: requests at a time of one address, and bodies."""

from __future__ import annotations

from collections import Counter

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from voxrtc.api import errors
from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.guests import household
from voxrtc.api.limits import MAX_BODY, MAX_RECORDING, bounded

OPEN = 48  # requests and WebSockets of one address at a time: some pages of a few people


class Bounds:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        who = household(address_of(HTTPConnection(scope)))
        self._open[who] += 1
        try:
            if self._open[who] > OPEN:
                raise ApiError(429, "too_many_of_yours", f"Your address has {OPEN} requests open here.", retry_after=5)
            body = bounded(receive, MAX_BODY + MAX_RECORDING) if scope["type"] == "http" else receive
            await self._app(scope, body, send)
        except ApiError as error:
            await errors.refuse(error, scope, receive, send)
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]
