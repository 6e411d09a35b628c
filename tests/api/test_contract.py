"""`/openapi.json`: what clients are made from. Whether it is true, `tests/fuzz/test_contract.py` tries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.test_api_loading import Stock
from tests.fake_media import EchoMedia
from voxrtc.api import history, replies
from voxrtc.api.app import build_app
from voxrtc.crowd.crowd import Crowd
from voxrtc.messages.model import Progress
from voxrtc.settings import ROOT, Settings

pytestmark = pytest.mark.anyio
NO_CONTENT = {"204", "200 /v1/realtime/calls/{call}/hangup"}


@pytest.fixture
async def told(http: httpx.AsyncClient) -> dict[str, Any]:
    return dict((await http.get("/openapi.json")).json())


def operations(told: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, each) for path, methods in told["paths"].items() for method, each in methods.items()]


def everything(folder: Path) -> FastAPI:
    """An application with all routes but those of a public host."""
    stock = Stock(folder)
    crowd = Crowd(stock.engines, most=2)
    app = build_app(stock.engines, EchoMedia(), stock.keeper, crowd=crowd)  # type: ignore[arg-type]
    app.include_router(replies.router(Settings(), lambda: Progress(state="ready")))

    async def nothing() -> Any:
        return {}, None

    app.include_router(history.router(history.History(nothing)))
    return app


def test_every_route_stands_in_the_docs(tmp_path: Path) -> None:
    """In full, or by its end where it stands beside others: `…/cancel`."""
    docs, paths = (ROOT / "docs" / "API.md").read_text("utf-8"), everything(tmp_path).openapi()["paths"]
    ways = {path: f"(?:{re.escape(path)}|`(?:[A-Z]+ )?…/{path.rpartition('/')[2]})" for path in paths}
    assert len(ways) > 15
    assert not [path for path, way in ways.items() if not re.search(way + r"(?![\w/{])", docs)]


async def test_every_answer_and_error_has_a_shape(told: dict[str, Any]) -> None:
    assert len(operations(told)) > 15
    for method, path, operation in operations(told):
        assert {"4XX", "5XX"} <= operation["responses"].keys(), (method, path)
        for status, response in operation["responses"].items():
            schemas = [content.get("schema") for content in response.get("content", {}).values()]
            assert {status, f"{status} {path}"} & NO_CONTENT or (schemas and all(schemas)), (method, path, status)
            if status >= "4" and path != "/readyz":
                assert schemas == [{"$ref": "#/components/schemas/Failure"}], (path, status)
    text = json.dumps(told)
    assert {name.rpartition("/")[2] for name in re.findall(r'"\$ref": "([^"]+)"', text)} <= told["components"]["schemas"].keys()
    assert "ValidationError" not in text, "there is no 422"


async def test_bodies_are_told_also_those_that_a_route_reads_itself(told: dict[str, Any]) -> None:
    kinds = {path: list(each["requestBody"]["content"]) for method, path, each in operations(told) if "requestBody" in each}
    assert kinds["/v1/audio/speech"] == ["application/json"]
    assert kinds["/v1/audio/voices"] == kinds["/v1/audio/transcriptions"] == ["multipart/form-data"]
    assert kinds["/v1/realtime/calls"] == ["application/sdp", "application/json", "multipart/form-data"]
    voice = told["components"]["schemas"]["SpeechRequest"]["properties"]["voice"]
    assert {each["type"] for each in voice["anyOf"]} == {"string", "object"}, "OpenAI names one's own voice by an object"


async def test_keys_are_told(told: dict[str, Any]) -> None:
    assert told["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    assert told["security"] == [{}, {"key": []}], "where there are none, none is needed"


async def test_statistics_are_told_as_they_are_sent(told: dict[str, Any], http: httpx.AsyncClient) -> None:
    sent = (await http.get("/v1/voxrtc/stats")).json()["engines"]["tone"]
    assert set(sent) == set(told["components"]["schemas"]["Stats"]["properties"])
