"""A Chromium, and the servers before which it takes pictures. `make screenshots`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cards import lark_card, pocket_card
from tests.e2e.conftest import browser, playwright
from tests.e2e.test_models import FAMILIES, publish
from tests.fake_chat import chat_app
from tests.fake_hub import Hub
from tests.fake_hub import serving as serving_hub
from tests.program import running
from tests.serving import serving
from tests.waiting import eventually

__all__ = ["browser", "playwright"]  # fixtures of theirs

ANSWERS = [
    "A lighthouse shows ships where the rocks are, and sailors have trusted its light for more than two thousand years.",
    "Keepers did. They climbed the stairs each evening, trimmed the lamp, and wrote down every ship that passed by.",
]
PADDING = 240_000_000  # bytes: what a real model of that name takes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder take pictures."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.screenshots)


@pytest.fixture(scope="session")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server that answers what one says, has Lark, and knows of models that it must fetch first: half of a file comes."""
    folder = tmp_path_factory.mktemp("lively")
    models = folder / "models"
    models.mkdir()
    lark_card(models)
    hub, chat = Hub(gate=threading.Event()), chat_app(*ANSWERS * 20)
    for family in FAMILIES.values():
        publish(family, folder / "published", models, hub)
    for repo in hub.repos.values():
        weights = max(repo.files, key=lambda name: len(repo.files[name]))
        repo.files[weights] += bytes(PADDING)
    run = partial(running, folder / "log.txt", VOXRTC_MODELS=str(models), HF_HUB_OFFLINE="", HF_TOKEN="")
    with serving_hub(hub), serving(chat) as (host, port):
        chatting = {"VOXRTC_CHAT_URL": f"http://{host}:{port}/v1", "VOXRTC_CHAT_KEY": "secret", "VOXRTC_CHAT_MODEL": "small"}
        with run(HF_ENDPOINT=hub.url, **chatting) as client:
            yield client


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server with two models that are ready."""
    models = tmp_path_factory.mktemp("pair")
    lark_card(models)
    pocket_card(models)

    def ready(client: httpx.Client) -> bool:
        return len(client.get("/v1/models").json()["data"]) == 2

    with running(models / "log.txt", VOXRTC_MODELS=str(models)) as client:
        client.post("/v1/voxrtc/models/tiny/load", json={}).raise_for_status()
        eventually(lambda: ready(client))
        yield client


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server with room for one who speaks and one who waits, and somebody who speaks for minutes."""
    long = " ".join(["The river runs past the mill, under the bridge, and on through the quiet fields to the sea."] * 40)
    with (
        running(tmp_path_factory.mktemp("full") / "log.txt", VOXRTC_MAX_STREAMS="1", VOXRTC_MAX_WAITING="1") as client,
        client.stream("POST", "/v1/audio/speech", json={"input": long, "response_format": "pcm"}) as download,
    ):
        sound = download.iter_raw()  # kept, since its end would be the download's
        next(sound)
        yield client
