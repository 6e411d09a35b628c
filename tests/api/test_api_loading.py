from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.fake_engine import TONE_MODEL, ToneProcesses, ToneTransport
from tests.fake_media import EchoMedia
from voxrtc.api.app import build_app
from voxrtc.cards import Card, Needs, Source
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.engine import Progress, Sampling, Unload

pytestmark = pytest.mark.anyio
PATH = "/v1/voxrtc/models"
BIRD = msgspec.structs.replace(TONE_MODEL, name="bird", title="Bird", link="https://huggingface.co/birds/bird")


class Stock:
    """Tone is loaded; bird has a card, gated and not here."""

    def __init__(self, folder: Path) -> None:
        tone, self.bird = ToneTransport(speed=1.0), ToneTransport(info=BIRD)
        tone.lost = self.bird.lost = True
        self.processes = ToneProcesses(tone, self.bird)
        self.engines = Fleet({"tone": tone, "bird": self.bird}, self.processes)
        source = Source(repo="birds/bird", revision="main", files=["*.bin"], licence="MIT", gated=True)
        needs = Needs(memory=1.5, stream=0.1, compute=3.0)
        parts = {"folder": folder, "defaults": Sampling()}
        cards = [
            Card(name=TONE_MODEL.name, info=TONE_MODEL, sources=[], needs=None, suggested="", **parts),
            Card(name=BIRD.name, info=BIRD, sources=[source], needs=needs, suggested="cpu", **parts),
        ]
        self.app = build_app(self.engines, EchoMedia(), cards, lambda: "bird")


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    stock = Stock(tmp_path)
    await stock.engines.load("tone")
    yield stock
    await stock.engines.close()


@pytest.fixture
async def http(stock: Stock) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(stock.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        yield client


async def bird(http: httpx.AsyncClient) -> dict[str, object]:
    _, bird = (await http.get(PATH)).json()["models"]
    return bird


async def test_all_cards_are_told_with_what_they_need_and_how_far_they_are(http: httpx.AsyncClient, stock: Stock) -> None:
    tone, bird = (await http.get(PATH)).json()["models"]
    assert (tone["name"], tone["state"], tone["default"], tone["here"], tone["needs"]) == ("tone", "ready", True, True, None)
    assert (bird["name"], bird["state"], bird["default"], bird["here"]) == ("bird", "unloaded", False, False)
    assert (bird["suggested"], tone["suggested"]) == (True, False)
    assert bird["needs"]["memory"] == 1.5 and bird["licence"] and bird["link"]
    link = "https://huggingface.co/birds/bird"
    assert bird["sources"] == [{"repo": "birds/bird", "licence": "MIT", "link": link, "gated": True}]
    stock.processes.running.add("bird")
    stock.bird.on_reply(Progress(state="loading", stage="downloading", done=3, total=10))
    _, bird = (await http.get(PATH)).json()["models"]
    assert [bird[field] for field in ("state", "stage", "done", "total")] == ["loading", "downloading", 3, 10]


async def test_a_model_is_loaded_speaks_and_is_unloaded(http: httpx.AsyncClient, stock: Stock) -> None:
    wanted = {"model": "bird", "input": "one", "response_format": "pcm"}
    early = await http.post("/v1/audio/speech", json=wanted)
    assert (early.status_code, early.json()["error"]["code"]) == (404, "model_not_found")
    loaded = await http.post(f"{PATH}/bird/load", json={})
    assert (loaded.status_code, loaded.json()["state"]) == (202, "ready")
    assert [model["id"] for model in (await http.get("/v1/models")).json()["data"]] == ["tone", "bird"]
    assert (await http.post("/v1/audio/speech", json=wanted)).status_code == 200
    assert set(await stock.engines.stats()) == {"tone", "bird"}
    unloaded = await http.post(f"{PATH}/bird/unload", json={})
    assert (unloaded.status_code, unloaded.json()["state"]) == (200, "unloaded")
    late = await http.post("/v1/audio/speech", json=wanted)
    assert late.status_code == 404 and "is not loaded" in late.json()["error"]["message"]


async def test_an_engine_that_ends_without_a_last_word_is_forgotten(
    http: httpx.AsyncClient, stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await http.post(f"{PATH}/bird/load", json={})
    monkeypatch.setattr("voxrtc.engine.fleet.TOLD_WITHIN", 0.01)
    send = stock.bird.send
    monkeypatch.setattr(stock.bird, "send", lambda request: None if isinstance(request, Unload) else send(request))
    assert (await http.post(f"{PATH}/bird/unload", json={})).json()["state"] == "unloaded"
    assert [model.name for model in stock.engines.known] == ["tone"]
    late = await http.post("/v1/audio/speech", json={"model": "bird", "input": "one", "response_format": "pcm"})
    assert late.status_code == 404 and "is not loaded" in late.json()["error"]["message"]


async def test_a_model_that_speaks_is_not_unloaded(http: httpx.AsyncClient, stock: Stock) -> None:
    speaking = asyncio.create_task(http.post("/v1/audio/speech", json={"input": "word " * 50, "response_format": "pcm"}))
    while not stock.processes.transports["tone"].tasks:
        await asyncio.sleep(0)
    refused = await http.post(f"{PATH}/tone/unload", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "model_in_use")
    assert "a listener" in refused.json()["error"]["message"]
    assert (await http.get("/healthz")).status_code == 200
    speaking.cancel()


async def test_a_failed_load_is_told_and_tried_again(http: httpx.AsyncClient, stock: Stock) -> None:
    stock.processes.failures["bird"] = "Accept the terms first."
    await http.post(f"{PATH}/bird/load", json={})
    told = await bird(http)
    assert (told["state"], told["message"]) == ("failed", "Accept the terms first.")
    del stock.processes.failures["bird"]
    await http.post(f"{PATH}/bird/load", json={})
    assert (await bird(http))["state"] == "ready"


async def test_loading_twice_is_loading_once(http: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(http.post(f"{PATH}/bird/load", json={}) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [202] * 3
    for _ in range(2):  # and unloading what is not loaded is no error
        assert (await http.post(f"{PATH}/bird/unload", json={})).status_code == 200


@pytest.mark.parametrize("verb", ["load", "unload"])
async def test_unknown_models_other_sites_and_forms_are_refused(http: httpx.AsyncClient, stock: Stock, verb: str) -> None:
    unknown = await http.post(f"{PATH}/gull/{verb}", json={})
    assert unknown.status_code == 404 and "tone, bird" in unknown.json()["error"]["message"]
    path = f"{PATH}/bird/{verb}"
    for origin in ("https://evil.example", "null", "http://voxrtc.evil.example", "http://voxrtc:81"):
        refused = await http.post(path, json={}, headers={"Origin": origin})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "cross_origin")
    for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
        assert (await http.post(path, content="{}", headers={"Content-Type": kind})).status_code == 415
    assert (await http.get(path)).status_code in (404, 405)
    assert stock.processes.running == {"tone"}
    ours = await http.post(path, json={}, headers={"Origin": "http://voxrtc"})
    behind = await http.post(path, json={}, headers={"Origin": "https://space.example", "X-Forwarded-Host": "space.example"})
    assert ours.is_success and behind.is_success


async def test_without_a_model_the_answer_says_what_to_do(http: httpx.AsyncClient) -> None:
    await http.post(f"{PATH}/tone/unload", json={})
    health = await http.get("/healthz")
    assert health.status_code == 503 and "Load one" in health.json()["message"]
    answer = await http.post("/v1/audio/speech", json={"input": "one"})
    assert answer.status_code == 404
    await http.post(f"{PATH}/bird/load", json={})
    assert (await http.post("/v1/audio/speech", json={"input": "one"})).status_code == 200  # the only one is the default
