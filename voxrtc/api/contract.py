"""What `/openapi.json` tells of the routes, for people and for programs that write clients: bodies, answers, errors.

Shapes are read off the types that are sent (msgspec), and a test holds all answers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec
from fastapi import FastAPI

Schema: TypeAlias = dict[str, Any]
Responses: TypeAlias = dict[int | str, dict[str, Any]]  # FastAPI's `responses`

REF = "#/components/schemas/{name}"
BINARY: Schema = {"type": "string", "format": "binary"}
TEXT: Schema = {"type": "string"}
EVENTS: Schema = {"description": "Server-sent events, of JSON each (WHATWG HTML, section 9.2)."}
ABOUT = """Open speech language models over HTTP and WebRTC, in OpenAI's shapes.

Where the server was started with keys, every request shows one: `Authorization: Bearer …`. Errors have one shape; `code` is for
programs, `message` for people. WebSockets and events are described in docs/API.md."""

_shapes: dict[str, Schema] = {}  # by name, of all routers made so far: each says the same whenever it is made


class Error(TypedDict):
    message: str
    type: Literal["invalid_request_error", "server_error"]
    code: str
    param: str | None


class Failure(TypedDict):
    """Every error, in OpenAI's shape. `param` is the field at fault."""

    error: Error


def shape(kind: Any, without: Mapping[str, tuple[str, ...]] | None = None) -> Schema:
    """A type as JSON Schema; `without` these fields, by the name of the type that has them."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template=REF)
    for name, fields in (without or {}).items():
        part = parts[name]
        part["properties"] = {each: value for each, value in part["properties"].items() if each not in fields}
        part["required"] = [each for each in part.get("required", ()) if each not in fields]
    assert all(_shapes.get(name, part) == part for name, part in parts.items()), "two types of one name"
    _shapes.update(parts)
    return schema


def answers(kind: Any, status: int = 200, about: str = "", without: Mapping[str, tuple[str, ...]] | None = None) -> Responses:
    """An answer of JSON."""
    return sends({"application/json": shape(kind, without)}, status, about)


def sends(content: Mapping[str, Schema], status: int = 200, about: str = "", **headers: str) -> Responses:
    """An answer of one of these media types; `headers` by name (with `_` for `-`), and what they are."""
    told = {name.replace("_", "-"): {"description": what, "schema": TEXT} for name, what in headers.items()}
    response: dict[str, Any] = {"content": {media: {"schema": schema} for media, schema in content.items()}}
    return {status: response | ({"description": about} if about else {}) | ({"headers": told} if told else {})}


def fails(**about: str) -> Responses:
    """Errors that a client may well meet: `fails(_404="There is no such voice.")`."""
    failure = {"application/json": {"schema": shape(Failure)}}
    again = {"Retry-After": {"description": "Seconds until it is worth another try.", "schema": {"type": "integer"}}}
    return {
        int(status[1:]): {"description": what, "content": failure} | ({"headers": again} if status in ("_429", "_503") else {})
        for status, what in about.items()
    }


def any_failure() -> Responses:
    """What every route may answer: from the guards around it, too."""
    content = {"application/json": {"schema": shape(Failure)}}
    wrong, failed = "The request is wrong, or not allowed.", "The server failed, or what it needs is not there."
    return {"4XX": {"description": wrong, "content": content}, "5XX": {"description": failed, "content": content}}


def takes(**bodies: Schema) -> dict[str, Any]:
    """FastAPI's `openapi_extra`, for a body that a route reads itself: by media type, with `_` for `/`."""
    content = {media.replace("_", "/", 1).replace("_", "-"): {"schema": schema} for media, schema in bodies.items()}
    return {"requestBody": {"required": True, "content": content}}


def form(*required: str, **fields: Schema) -> Schema:
    """A form's schema."""
    return {"type": "object", "properties": fields, "required": list(required)}


def install(app: FastAPI) -> None:
    """Have `app` tell the shapes that its routes name, and how keys are shown."""
    told: Callable[[], Schema] = app.openapi

    def openapi() -> Schema:
        schema = told()
        components = schema.setdefault("components", {})
        components["schemas"] = dict(sorted({**_shapes, **components.get("schemas", {})}.items()))
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{}, {"key": []}]
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
