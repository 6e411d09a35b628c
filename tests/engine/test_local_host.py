"""Which GPU a replica gets. That it runs is in `test_process` and `tests/chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrtc.engine import local_host
from voxrtc.engine.local_host import LocalHost
from voxrtc.settings import Settings
from voxrtc.supervisor import Child

pytestmark = pytest.mark.anyio


class Children:
    """A supervisor that starts nothing."""

    def __init__(self) -> None:
        self.children: dict[str, Child] = {}

    def runs(self, name: str) -> bool:
        return name in self.children

    def start(self, child: Child) -> None:
        self.children[child.name] = child

    async def stop(self, name: str) -> None:
        self.children.pop(name, None)


class House:
    """A host of so many GPUs."""

    def __init__(self, gpus: int, device: str = "auto") -> None:
        self.host, self.supervisor = LocalHost(Settings(device=device), Path("/nowhere"), gpus), Children()
        self.host._supervisor = self.supervisor  # type: ignore[assignment]

    async def find(self, *numbers: int) -> None:
        for number in numbers:
            await self.host.find(f"replica-{number}", lambda what: None)

    @property
    def devices(self) -> list[str]:
        return [child.environment["VOXRTC_DEVICE"] for _, child in sorted(self.supervisor.children.items())]


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_host, "ZmqTransport", lambda address: address)


async def test_each_has_a_gpu_of_its_own_also_when_one_is_started_anew() -> None:
    house = House(2)
    await house.find(0, 1)
    assert house.devices == ["cuda:0", "cuda:1"]
    await house.host.stop("replica-1")
    await house.find(0, 1)
    assert house.devices == ["cuda:0", "cuda:1"]
    await house.host.stop("replica-0")
    await house.find(2)
    assert house.devices == ["cuda:1", "cuda:0"], "replica-1, replica-2"


async def test_more_than_there_are_gpus_share_them() -> None:
    house = House(2, "cuda")
    await house.find(0, 1, 2, 3)
    assert house.devices == ["cuda:0", "cuda:1"] * 2


@pytest.mark.parametrize(("gpus", "device"), [(0, "auto"), (1, "auto"), (4, "cpu"), (4, "cuda:3")])
async def test_where_there_is_no_choice_the_setting_stands(gpus: int, device: str) -> None:
    house = House(gpus, device)
    await house.find(0, 1)
    assert house.devices == [device] * 2
