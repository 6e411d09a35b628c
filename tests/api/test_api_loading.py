from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from tests.fake_engine import TONE_MODEL, ToneProcesses, ToneTransport
from tests.fake_media import EchoMedia
from tests.waiting import until
from voxrtc.api import errors
from voxrtc.api.app import build_app
from voxrtc.api.loading import Shelf, router
from voxrtc.cards import Card, Needs, Source
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import Budget, Keeper
from voxrtc.learned import Learned
from voxrtc.machine import Machine
from voxrtc.messages.engine import ReplicaStats, Sampling, SetReplicas
from voxrtc.messages.model import Progress, Unload

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
        small = Needs(memory=0.1, stream=0.01, compute=1.0)
        cards = {
            "tone": Card(name="tone", info=TONE_MODEL, sources=[], needs=small, suggested="", **parts),
            "bird": Card(name="bird", info=BIRD, sources=[source], needs=needs, suggested="cpu", download=1.5, **parts),
        }
        learned = Learned("cpu", folder / "speeds.json")
        self.free = 8.0
        self.keeper = Keeper(self.engines, cards, learned, self.look, self.measure, Budget())
        self.app = build_app(self.engines, EchoMedia(), self.keeper, lambda: "bird")

    def look(self) -> Machine:
        return Machine(memory=16, free=self.free, cores=2)

    async def measure(self) -> None:
        return None


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
    assert (tone["name"], tone["state"], tone["default"], tone["here"]) == ("tone", "ready", True, True)
    assert (bird["name"], bird["state"], bird["default"], bird["here"]) == ("bird", "unloaded", False, False)
    assert (bird["suggested"], tone["suggested"]) == (True, False)
    assert bird["needs"]["memory"] == 1.5 and bird["licence"] and bird["link"] and bird["kind"] == "text to speech"
    assert (bird["download"], bird["fit"]["words"], tone["download"]) == (1_500_000_000, "fits", 0)
    link = "https://huggingface.co/birds/bird"
    assert bird["sources"] == [{"repo": "birds/bird", "licence": "MIT", "link": link, "gated": True}]
    stock.processes.running.add("bird")
    stock.bird.on_reply(Progress(state="loading", stage="downloading", done=3, total=10, rate=2.5))
    _, bird = (await http.get(PATH)).json()["models"]
    assert [bird[field] for field in ("state", "stage", "done", "total", "rate")] == ["loading", "downloading", 3, 10, 2.5]


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
    await until(lambda: stock.processes.transports["tone"].tasks, every=0)
    refused = await http.post(f"{PATH}/tone/unload", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "model_in_use")
    assert "a listener" in refused.json()["error"]["message"]
    assert (await http.get("/readyz")).status_code == 200
    speaking.cancel()


async def test_a_failed_load_is_told_and_tried_again(http: httpx.AsyncClient, stock: Stock) -> None:
    stock.processes.failures["bird"] = "Accept the terms first."
    await http.post(f"{PATH}/bird/load", json={})
    told = await bird(http)
    assert (told["state"], told["message"]) == ("failed", "Accept the terms first.")
    del stock.processes.failures["bird"]
    await http.post(f"{PATH}/bird/load", json={})
    assert (await bird(http))["state"] == "ready"


async def test_loading_is_given_up_while_it_goes_on_and_not_else(http: httpx.AsyncClient, stock: Stock) -> None:
    for name, why in (("bird", "is not being loaded: it is not loaded"), ("tone", "it is ready")):
        refused = await http.post(f"{PATH}/{name}/cancel", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_loading")
        assert why in refused.json()["error"]["message"]
    stock.processes.slow.add("bird")
    assert (await http.post(f"{PATH}/bird/load", json={})).json()["state"] == "loading"
    given_up = await http.post(f"{PATH}/bird/cancel", json={})
    assert (given_up.status_code, given_up.json()["state"]) == (200, "unloaded")
    assert stock.processes.running == {"tone"}


async def test_what_does_not_fit_is_refused_with_what_it_lacks(http: httpx.AsyncClient, stock: Stock) -> None:
    stock.free = 0.5
    refused = await http.post(f"{PATH}/bird/load", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_room")
    assert "needs about 2.5 GB, and models may take" in refused.json()["error"]["message"]
    told = (await http.get(PATH)).json()
    assert told["models"][1]["state"] == "unloaded" and told["models"][1]["fit"]["words"] == "needs 1.1 GB more"
    assert told["machine"] == {"words": "2 cores, 16 GB of memory, no GPU", "gpu": False, "room": 1.4, "shared": False}
    assert (await http.get("/readyz")).status_code == 200


async def test_on_a_public_host_nobody_ends_what_others_use(http: httpx.AsyncClient, stock: Stock) -> None:
    app = FastAPI()
    errors.install(app)
    app.include_router(router(Shelf(stock.engines, stock.keeper, lambda: "", public=True)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://voxrtc") as visitor:
        assert (await visitor.get(PATH)).json()["machine"]["shared"]
        stock.processes.slow.add("bird")
        assert (await visitor.post(f"{PATH}/bird/load", json={})).json()["state"] == "loading"
        for name, verb in (("bird", "cancel"), ("bird", "unload"), ("tone", "unload")):
            refused = await visitor.post(f"{PATH}/{name}/{verb}", json={})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "shared_server")
    assert stock.processes.running == {"tone", "bird"}


async def test_loading_twice_is_loading_once(http: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(http.post(f"{PATH}/bird/load", json={}) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [202] * 3
    for _ in range(2):  # and unloading what is not loaded is no error
        assert (await http.post(f"{PATH}/bird/unload", json={})).status_code == 200


@pytest.mark.parametrize("verb", ["load", "cancel", "unload"])
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
    proxied = {"Origin": "https://space.example", "X-Forwarded-Host": "space.example"}
    for headers in ({"Origin": "http://voxrtc"}, proxied):
        assert (await http.post(path, json={}, headers=headers)).status_code == {"load": 202, "cancel": 409, "unload": 200}[
            verb
        ]


async def test_without_a_model_the_answer_says_what_to_do(http: httpx.AsyncClient) -> None:
    await http.post(f"{PATH}/tone/unload", json={})
    health = await http.get("/readyz")
    assert health.status_code == 503 and "Load one" in health.json()["message"]
    answer = await http.post("/v1/audio/speech", json={"input": "one"})
    assert answer.status_code == 404
    await http.post(f"{PATH}/bird/load", json={})
    assert (await http.post("/v1/audio/speech", json={"input": "one"})).status_code == 200  # the only one is the default


async def test_replicas_are_asked_for_where_there_can_be_any(
    http: httpx.AsyncClient, stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tone = stock.processes.transports["tone"]
    single = await http.post(f"{PATH}/tone/replicas", json={"count": 3})
    assert (single.status_code, single.json()["error"]["code"]) == (409, "one_engine")
    monkeypatch.setattr(tone, "replicas", [ReplicaStats(name="replica-0", streams=0, waiting=0)])
    assert (await http.post(f"{PATH}/tone/replicas", json={"count": 3})).status_code == 202
    assert [r.count for r in tone.requests if isinstance(r, SetReplicas)] == [3]
    early = await http.post(f"{PATH}/bird/replicas", json={"count": 3})
    assert (early.status_code, early.json()["error"]["code"]) == (409, "model_not_ready")
    for count in (0, 1000, "many"):
        assert (await http.post(f"{PATH}/tone/replicas", json={"count": count})).status_code == 400
