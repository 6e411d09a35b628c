"""What an utterance over HTTP is, to a host: a request for one, from its beginning to the end of its answer."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from voxrtc.api import errors
from voxrtc.api.address import address_of
from voxrtc.api.cloning import PATH as VOICES
from voxrtc.api.errors import ApiError
from voxrtc.api.host import Host
from voxrtc.api.transcription import PATH as TRANSCRIPTIONS

COUNTED = {("POST", path) for path in ("/v1/audio/speech", VOICES, TRANSCRIPTIONS)}


class Utterances:
    """ASGI middleware. The host is asked for each, and told when it is over."""

    def __init__(self, app: ASGIApp, host: Host) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"], scope["path"]) not in COUNTED:
            return await self._app(scope, receive, send)
        try:
            leave = self._host.listen(address_of(HTTPConnection(scope)))
        except ApiError as error:
            return await errors.refuse(error, scope, receive, send)
        try:
            await self._app(scope, receive, send)
        finally:
            leave()
