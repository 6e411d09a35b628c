"""What is asked of Ray, and what becomes of its answers. Ray itself is in `test_cluster`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import exceptions

from tests.waiting import PATIENCE
from voxrtc.cards import Needs
from voxrtc.engine import cluster, ray_host
from voxrtc.engine.ray_host import RayHost
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings

pytestmark = pytest.mark.anyio
NEEDS = Needs(memory=0.04, stream=0.1, reads=0.03, compute=0.1)


class Ray:
    """Makes actors whose places are `answers`, one after another."""

    exceptions = exceptions

    def __init__(self, *answers: Any, **resources: float) -> None:
        self.answers, self.resources = list(answers), resources
        self.made: list[dict[str, Any]] = []

    def init(self, **_: Any) -> None: ...

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, _: type) -> Any:
        return SimpleNamespace(options=self._options)

    def _options(self, **options: Any) -> Any:
        self.made.append(options)
        place = SimpleNamespace(remote=lambda: SimpleNamespace(future=self._answer))
        return SimpleNamespace(remote=lambda environment: SimpleNamespace(place=place))

    def _answer(self) -> Future[Any]:
        future: Future[Any] = Future()
        match self.answers.pop(0):
            case Exception() as wrong:
                future.set_exception(wrong)
            case place:
                future.set_result(place)
        return future


@pytest.mark.parametrize(
    ("device", "gpus", "wanted"),
    [
        ("auto", 4.0, {"num_gpus": 1}),
        ("cuda", 4.0, {"num_gpus": 1}),
        ("auto", 0.0, {"memory": 990_000_000}),
        ("cpu", 4.0, {"memory": 990_000_000}),
    ],
)
async def test_a_place_is_what_the_cluster_has(
    device: str, gpus: float, wanted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not what this machine has. Without a GPU, memory for a process of its own, the weights and a listener."""
    ray = Ray(("tcp://10.0.0.1:99", b"key"), GPU=gpus)
    monkeypatch.setattr(ray_host, "ray", ray)
    await RayHost(Settings(device=device), NEEDS).find("replica-0", lambda what: None)
    [options] = ray.made
    assert {kind: options[kind] for kind in ("num_gpus", "memory") if kind in options} == wanted and options["num_cpus"] == 1


async def test_an_actor_that_died_is_made_once_more_when_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(exceptions.ActorDiedError(), ("tcp://10.0.0.1:99", b"key"))
    monkeypatch.setattr(ray_host, "ray", ray)
    host = RayHost(Settings(), NEEDS)
    with pytest.raises(exceptions.ActorDiedError):
        await host.find("replica-0", lambda what: None)
    assert len(ray.made) == 1
    assert await host.find("replica-0", lambda what: None) and len(ray.made) == 2


async def test_a_cluster_that_cannot_be_reached_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, ends = asyncio.Queue[Progress](), list[Callable[[], object]]()

    def unreachable(*_: object) -> None:
        raise ConnectionError("nobody at head:6379")

    monkeypatch.setattr(cluster, "_host", unreachable)
    monkeypatch.setattr(cluster, "when_parent_ends", ends.append)
    server: Any = SimpleNamespace(address=f"ipc://{tmp_path}/engine", tell=told.put_nowait)
    running = asyncio.create_task(cluster.run(Settings(), server))
    progress = await asyncio.wait_for(told.get(), PATIENCE)
    assert (progress.state, progress.message) == ("failed", "nobody at head:6379")
    ends[0]()
    await running
