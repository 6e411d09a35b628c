"""Which of Gradio's routes are open. It comes with many that nothing here calls: they keep what they are sent, have FFmpeg read
it, or fetch what an address names; and with a new release come others."""

from __future__ import annotations

import re

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

READS = ("GET", "HEAD", "OPTIONS")
# What the page, Gradio's clients and MCP hosts send something to
CALLED = re.compile(r"/gradio_api/((queue/join|(run|api|call|call/v2)/[^/]+|cancel|reset)/?|mcp(/.*)?)")
# What is no mere reading: other servers' files, state that is written down, polls that only developers want
NEVER_READ = re.compile(r"/gradio_api/(proxy=|file=\w+:|file/|deep_link|upload_progress|dev/).*", re.DOTALL)


class Door:
    """ASGI, around Gradio's application. Mount it at the root."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope["method"], scope["path"]):
            return await _closed()(scope, receive, send)
        await self._app(scope, receive, send)


def _is_open(method: str, path: str) -> bool:
    return not NEVER_READ.fullmatch(path) if method in READS else bool(CALLED.fullmatch(path))


def _closed() -> JSONResponse:
    """In the shape of all other errors."""
    message = "This server takes no files here, and fetches no addresses."
    fault = {"message": message, "type": "invalid_request_error", "code": "not_allowed", "param": None}
    return JSONResponse({"error": fault}, 403)
