from __future__ import annotations

import httpx
import pytest

from tests.fake_engine import ToneTransport
from tests.fake_media import EchoMedia
from voxrtc.chat.media_client import CallRefused
from voxrtc.engine import fleet
from voxrtc.messages.model import GetModels, Models

pytestmark = pytest.mark.anyio


async def test_models_are_listed_as_openai_does_with_our_fields_apart(http: httpx.AsyncClient) -> None:
    body = (await http.get("/v1/models")).json()
    (model,) = body["data"]
    assert (body["object"], model["object"], model["id"], model["owned_by"]) == ("list", "model", "tone", "voxrtc")
    assert isinstance(model["created"], int)
    assert model["voxrtc"]["voices"] == ["default"]
    assert (await http.get("/v1/models/tone")).json() == model


async def test_an_unknown_model_is_404_and_says_what_there_is(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/models/some/other")
    fault = answer.json()["error"]
    assert (answer.status_code, fault["code"]) == (404, "model_not_found")
    assert "tone" in fault["message"]


async def test_alive_is_the_process_alone(http: httpx.AsyncClient, tone: ToneTransport, media: EchoMedia) -> None:
    tone.lose()
    media.refusal = CallRefused(503, "media_lost", "It is gone.")
    answer = await http.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_ready_is_a_default_model_and_a_media_process(http: httpx.AsyncClient) -> None:
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "models": ["tone"]})


async def test_without_its_engine_it_is_not_ready(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    tone.lose()
    health, listing = await http.get("/readyz"), await http.get("/v1/models")
    assert (health.status_code, health.json()["status"]) == (503, "not ready")
    assert "retry-after" in health.headers
    assert (listing.status_code, listing.json()["error"]["code"]) == (503, "engine_lost")


async def test_another_model_than_the_default_one_is_not_enough(
    http: httpx.AsyncClient, tone: ToneTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tone, "send", lambda asked: tone.on_reply(Models(call=asked.call, models=[])))
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert "“tone”" in answer.json()["message"]


async def test_without_its_media_process_it_is_not_ready(http: httpx.AsyncClient, media: EchoMedia) -> None:
    media.refusal = CallRefused(503, "media_lost", "It is gone.")
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["message"], answer.json()["models"]) == (503, "It is gone.", ["tone"])


async def test_an_engine_that_does_not_answer_is_not_waited_for(
    http: httpx.AsyncClient, tone: ToneTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GetModels] = []
    monkeypatch.setattr(tone, "send", asked.append)
    monkeypatch.setattr(fleet, "TOLD_WITHIN", 0.01)
    assert (await http.get("/readyz")).status_code == 503
    assert (await http.get("/v1/models")).json()["error"]["code"] == "engine_lost"
    assert len(asked) == 2


async def test_the_api_describes_itself(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert {"/v1/audio/speech", "/v1/realtime/calls", "/v1/models", "/healthz", "/readyz"} <= set(paths)
