"""What a public host bounds on all routes, also Gradio's: requests at a time of one address, bodies, utterances."""

from __future__ import annotations

from collections import Counter

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from voxrtc.api import errors
from voxrtc.api.address import address_of
from voxrtc.api.cloning import PATH as VOICES
from voxrtc.api.errors import ApiError
from voxrtc.api.guests import household
from voxrtc.api.host import Host
from voxrtc.api.limits import MAX_BODY, MAX_RECORDING, bounded
from voxrtc.api.transcription import PATH as TRANSCRIPTIONS

OPEN = 48  # requests and WebSockets of one address at a time: some pages of a few people
COUNTED = {("POST", path) for path in ("/v1/audio/speech", VOICES, TRANSCRIPTIONS)}


class Bounds:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, host: Host) -> None:
        self._app, self._host = app, host
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        address = address_of(HTTPConnection(scope))
        who = household(address)
        self._open[who] += 1
        try:
            if self._open[who] > OPEN:
                raise ApiError(429, "too_many_of_yours", f"Your address has {OPEN} requests open here.", retry_after=5)
            if scope["type"] == "http":
                await self._http(address, scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except ApiError as error:
            await errors.refuse(error, scope, receive, send)
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _http(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = bounded(receive, MAX_BODY + MAX_RECORDING)
        if (scope["method"], scope["path"]) not in COUNTED:
            return await self._app(scope, body, send)
        leave = self._host.listen(address)
        try:
            await self._app(scope, body, send)
        finally:
            leave()
