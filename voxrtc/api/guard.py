"""What holds for all routes, Gradio's included: who may come in, what other sites' pages may not do, how much may be sent, and
the headers by which browsers help."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxrtc.api import errors
from voxrtc.api.access import Access
from voxrtc.api.errors import ApiError
from voxrtc.api.limits import MAX_BODY, MAX_HEADERS, MAX_RECORDING, bounded
from voxrtc.api.origin import foreign

OPEN = (
    "/healthz",
    "/readyz",
    "/login",
    "/voxrtc/",
)  # without a key: probes, the way in, and the page's files, which are public
HASHED = "/assets/"  # Gradio's files, whose names have their contents' hashes: another file has another name
TAKING = ("/v1/", "/gradio_api/heartbeat/", "/gradio_api/queue/")  # where reading takes a place, or holds a connection
SAFE = ("GET", "HEAD", "OPTIONS")  # methods that change nothing (RFC 9110, section 9.2.1)

# Gradio runs templates as code and styles inline, hence two `unsafe-`. What is left: nothing is loaded from, sent to, or
# embedded by anybody else.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors "
)


class Guard:
    """ASGI middleware around everything. `frames` are the origins whose pages may show ours in a frame."""

    def __init__(self, app: ASGIApp, access: Access, frames: Collection[str] = ()) -> None:
        self._app, self._access = app, access
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
            "Content-Security-Policy": POLICY + " ".join(["'self'", *sorted(frames)]),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        connection, reply = HTTPConnection(scope), self._dressed(scope, send)
        try:
            self._check(connection)
        except ApiError as error:
            if error.code == "unauthorized" and _is_visit(connection):
                return await RedirectResponse("login", 303)(scope, receive, reply)
            return await errors.refuse(error, scope, receive, reply)
        await self._app(scope, bounded(receive, _most(scope["path"])) if scope["type"] == "http" else receive, reply)

    def _check(self, connection: HTTPConnection) -> None:
        """Raises `ApiError` 401, 403 or 431."""
        scope = connection.scope
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
            raise ApiError(431, "too_large", f"The headers are larger than {MAX_HEADERS // 1024} KiB.")
        if not _is_open(scope["path"]) and not self._access.admits(connection):
            message = "This server wants a key: send `Authorization: Bearer …`, or log in on its page."
            raise ApiError(401, "unauthorized", message)
        if scope["type"] == "http" and _has_effects(scope) and (origin := foreign(connection)):
            raise ApiError(403, "cross_origin", cross_origin(origin))

    def _dressed(self, scope: Scope, send: Send) -> Send:
        async def dressed(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                if message.get("status") == 200 and scope["path"].startswith(HASHED):
                    headers.setdefault("Cache-Control", "private, max-age=31536000, immutable")
            await send(message)

        return dressed


def cross_origin(origin: str) -> str:
    """What a page of another site is told."""
    return (
        f"Pages of {origin} may not use this server. If that is its own address, or one to be trusted, its operator adds it to "
        "VOXRTC_ORIGINS."
    )


def _is_open(path: str) -> bool:
    return any(path.startswith(each) if each.endswith("/") else path == each for each in OPEN)


def _most(path: str) -> int:
    """Bytes of a body. Gradio keeps what came last in each session; of ours, only some routes take so much (`LimitedRoute`)."""
    return MAX_BODY if path.startswith("/gradio_api/") else MAX_BODY + MAX_RECORDING


def _has_effects(scope: Scope) -> bool:
    """It changes something, or takes a place: of those who look on, or stand in line."""
    return scope["method"] not in SAFE or scope["path"].startswith(TAKING)


def _is_visit(connection: HTTPConnection) -> bool:
    """Somebody opens the page."""
    scope = connection.scope
    return scope["type"] == "http" and scope["path"] == "/" and "text/html" in connection.headers.get("accept", "")
