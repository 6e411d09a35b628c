"""Errors as OpenAI's API tells them: `{"error": {"message", "type", "code", "param"}}` with a status that fits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from voxrtc.chat.media_client import CallRefused
from voxrtc.engine.client import EngineLost, StreamFailed

RETRY_AFTER = 3  # seconds: about what an engine takes to restart, or a short queue to move

_STATUS = {
    "invalid_request": 400,
    "model_not_found": 404,
    "model_loading": 503,
    "model_failed": 500,
    "busy": 503,
    "engine_error": 500,
    "engine_lost": 503,
}
_CODE = {404: "not_found", 405: "method_not_allowed"}


class ApiError(HTTPException):
    """An answer that is an error: HTTP `status`, `code` for programs, `message` for people, and the field at fault.

    A 429 or 503 says after how many seconds to try again.
    """

    def __init__(
        self, status: int, code: str, message: str, param: str | None = None, retry_after: float = RETRY_AFTER
    ) -> None:
        super().__init__(status, message)
        self.code, self.param, self.retry_after = code, param, retry_after


def from_stream(failure: StreamFailed) -> ApiError:
    """A stream that failed before its first sound, as an answer."""
    retry_after = failure.retry_after or RETRY_AFTER
    return ApiError(_STATUS.get(failure.code, 500), failure.code, str(failure), retry_after=retry_after)


def response(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """The error on the wire. A client that may simply try again is told when."""
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    fields = {"message": error.detail, "type": kind, "code": error.code, "param": error.param}
    extra = {"Retry-After": str(math.ceil(error.retry_after))} if error.status_code in (429, 503) else {}
    extra |= {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else {}
    # Escaped to ASCII: a message may quote text that has no UTF-8 form (lone surrogates).
    body = json.dumps({"error": fields}).encode()
    return Response(body, error.status_code, {**(headers or {}), **extra}, media_type="application/json")


async def refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or the opening of a WebSocket, from around the application."""
    if scope["type"] == "http":
        await response(error)(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await WebSocket(scope, receive, send).send_denial_response(response(error))
    else:
        await send({"type": "websocket.close", "code": 1013 if error.status_code in (429, 503) else 1008, "reason": error.code})


def _validation(failure: RequestValidationError) -> ApiError:
    """The first field at fault, by name."""
    first = failure.errors()[0]
    place, kind = first["loc"], first["type"]
    if kind == "json_invalid":
        return ApiError(400, "invalid_json", "The body is not valid JSON.")
    if place == ("body",):
        return ApiError(400, "invalid_request", "Send a JSON object, with `Content-Type: application/json`.")
    param = ".".join(str(part) for part in place[1:])
    message = "It is required." if kind == "missing" else first["msg"].removeprefix("Value error, ")
    return ApiError(400, "invalid_request", f"`{param}`: {message}", param)


def install(app: FastAPI) -> None:
    """Give every error of `app` this shape; an unforeseen one tells its cause to the log only."""

    @app.exception_handler(ApiError)
    async def api_error(_: Request, error: ApiError) -> Response:
        return response(error)

    @app.exception_handler(CallRefused)
    async def refused(_: Request, refusal: CallRefused) -> Response:
        return response(ApiError(refusal.status, refusal.code, refusal.message))

    @app.exception_handler(EngineLost)
    async def engine_lost(_: Request, lost: EngineLost) -> Response:
        return response(ApiError(503, "engine_lost", str(lost)))

    @app.exception_handler(RequestValidationError)
    async def validation_error(_: Request, failure: RequestValidationError) -> Response:
        return response(_validation(failure))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, failure: HTTPException) -> Response:
        code = _CODE.get(failure.status_code, "invalid_request")
        return response(ApiError(failure.status_code, code, str(failure.detail)), failure.headers)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, __: Exception) -> Response:
        return response(ApiError(500, "internal_error", "The server failed on this request; its log says why."))
