"""Several models within a budget: who goes for whom, with engines that are tones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from tests.fake_engine import TONE_MODEL, ToneProcesses, ToneTransport
from tests.waiting import until
from voxrtc.cards import Card, Needs
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import SHARE, Budget, Keeper
from voxrtc.engine.room import NoRoom
from voxrtc.fit import PROCESS
from voxrtc.learned import Learned
from voxrtc.machine import Machine, Speed
from voxrtc.messages.engine import CostStats, Generate, Sampling

pytestmark = pytest.mark.anyio
NEEDS = Needs(memory=2 - PROCESS - 0.1, stream=0.1, compute=10, reads=10)  # 2 GB in all
NAMES = ("lark", "wren", "owl")


def card(name: str, folder: Path) -> Card:
    info = msgspec.structs.replace(TONE_MODEL, name=name)
    return Card(name=name, info=info, folder=folder / name, sources=[], needs=NEEDS, defaults=Sampling(), suggested="")


@dataclass
class House:
    """Three models of 2 GB, none of them loaded; 9 GB are free, less what the loaded ones hold."""

    folder: Path
    budget: float
    talking: list[str] = field(default_factory=list)
    measured: int = 0

    def __post_init__(self) -> None:
        infos = [msgspec.structs.replace(TONE_MODEL, name=name) for name in NAMES]
        self.engines = {info.name: ToneTransport(speed=1.0, info=info) for info in infos}
        for engine in self.engines.values():
            engine.lost, engine.memory = True, 2.0
        self.processes = ToneProcesses(*self.engines.values())
        self.fleet = Fleet(self.engines, self.processes)
        cards = {name: card(name, self.folder) for name in NAMES}
        self.learned = Learned("cpu", self.folder / "speeds.json")
        budget = Budget(self.budget, streams=8)
        self.keeper = Keeper(self.fleet, cards, self.learned, self.look, self.measure, budget, self.who_talks)

    def look(self) -> Machine:
        return Machine(memory=12, free=9.0 - 2 * len(self.processes.running), cores=2)

    async def measure(self) -> Speed:
        self.measured += 1
        return Speed(reads=10, computes=100)

    async def who_talks(self) -> list[str]:
        return self.talking

    async def load(self, *names: str) -> set[str]:
        """One after another; what is loaded then."""
        for name in names:
            await self.keeper.load(name)
        return self.processes.running

    async def speak(self, name: str) -> asyncio.Task[None]:
        """A model that has begun to say a sentence."""

        async def listen() -> None:
            async for _ in self.fleet.generate(Generate(stream=name, text="word " * 99, accepted=0, model=name)):
                pass

        task = asyncio.create_task(listen())
        await until(lambda: self.engines[name].tasks, every=0)
        return task


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path, budget=4.5)
    yield house
    await house.fleet.close()


async def test_the_least_recently_used_makes_room(house: House) -> None:
    assert await house.load("lark", "wren") == {"lark", "wren"}
    house.engines["lark"].used, house.engines["wren"].used = 2.0, 1.0
    assert await house.load("owl") == {"lark", "owl"}
    house.engines["owl"].used = 3.0
    assert await house.load("wren") == {"wren", "owl"}, "the default one goes, too, when nobody talks with it"
    assert await house.load("wren", "owl") == {"wren", "owl"}, "what is there is not loaded again"


async def test_what_is_used_stays(house: House) -> None:
    await house.load("lark", "wren")
    speaking = await house.speak("wren")
    house.engines["lark"].used, house.talking = 9.0e9, ["lark"]
    with pytest.raises(NoRoom, match=r"“lark” holds 2.0 GB and is talked with, “wren” holds 2.0 GB and speaks"):
        await house.load("owl")
    assert house.processes.running == {"lark", "wren"}
    house.talking = ["wren"]  # silent as it is: only the default one is kept for a conversation
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    house.engines["wren"].used = 1.0
    assert await house.load("owl") == {"lark", "owl"}


async def test_what_is_being_loaded_stays_and_counts_for_what_it_will_take(house: House) -> None:
    house.processes.slow.add("lark")
    house.engines["lark"].memory = 0.1  # so far
    await house.load("lark", "wren")
    house.engines["wren"].used = 9.0e9
    assert await house.load("owl") == {"lark", "owl"}
    house.processes.slow.add("wren")
    speaking = await house.speak("owl")
    with pytest.raises(NoRoom, match=r"“lark” holds 2.0 GB and is being loaded"):
        await house.load("wren")
    speaking.cancel()


async def test_a_model_that_begins_to_speak_meanwhile_stays(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.load("lark", "wren")
    house.engines["wren"].used, house.engines["lark"].used = 1.0, 2.0
    unload, speaking = house.fleet.unload, []

    async def too_late(model: str) -> None:
        if not speaking:
            speaking.append(await house.speak(model))
        await unload(model)

    monkeypatch.setattr(house.fleet, "unload", too_late)
    assert await house.load("owl") == {"wren", "owl"}
    speaking[0].cancel()


async def test_one_that_failed_makes_way_for_its_next_try(house: House) -> None:
    house.processes.failures["wren"] = "no network"
    await house.load("lark", "wren")
    speaking = await house.speak("lark")
    del house.processes.failures["wren"]
    await house.load("wren")
    assert house.fleet.states()["wren"].state == "ready"
    speaking.cancel()


async def test_what_can_never_fit_is_refused_and_nothing_goes_in_vain(tmp_path: Path) -> None:
    house = House(tmp_path, budget=1.9)
    await house.fleet.load("lark")
    with pytest.raises(NoRoom, match=r"needs about 2.0 GB, and models may take 1.9 GB here. Choose a smaller one"):
        await house.load("wren")
    assert house.processes.running == {"lark"}
    assert house.keeper.fit("wren").words == "needs 0.2 GB more"


async def test_caches_keep_to_a_budget(house: House) -> None:
    await house.load("lark", "wren")
    caches = house.processes.caches
    assert caches["lark"] == pytest.approx(0.4), "half of what 8 streams take at their longest"
    assert caches["wren"] == pytest.approx(0.4)
    house.engines["wren"].memory = 2.3
    await house.fleet.unload("lark")
    await house.load("lark")
    assert caches["lark"] == pytest.approx(0.1 + 4.5 - 2.3 - 2.0), "what is left, and one stream's"


async def test_without_a_budget_it_goes_by_what_is_free(tmp_path: Path) -> None:
    house = House(tmp_path, budget=0)
    assert await house.load(*NAMES) == set(NAMES)  # 2 of 8.1, then of 8.3, and of 8.5 GB
    assert house.processes.caches == dict.fromkeys(NAMES, 0)
    await house.keeper.learn()
    assert house.keeper.room == pytest.approx(SHARE * 3 + 6)
    assert house.keeper.fit("owl").lacks == 0


async def test_speeds_are_estimated_then_learned(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert house.keeper.fit("lark").words == "fits"
    house.processes.slow.add("wren")
    await house.load("lark", "wren")
    await house.keeper.learn()
    assert house.measured == 0, "not while a model is being loaded"
    await house.fleet.give_up("wren")
    await house.keeper.learn()
    assert house.keeper.fit("lark").words == "slow here: about 0.8x real time"
    kind = CostStats(call_ms=1.0, each_ms={"stream": 0.0, "frame": 0.0}, observed=1)
    stats = msgspec.structs.replace((await house.fleet.stats())["lark"], costs=dict.fromkeys(("step", "depth", "codec"), kind))

    async def learned() -> dict[str, object]:
        return {"lark": stats}

    monkeypatch.setattr(house.fleet, "stats", learned)
    await house.keeper.learn()
    assert house.measured == 1
    told = house.keeper.fit("lark")  # 40 frames of 2 ms, and 5 calls of 1 ms
    assert told.learned and told.speed == pytest.approx(1 / 0.085, abs=0.01)


async def test_it_watches_what_comes_and_goes(tmp_path: Path) -> None:
    house = House(tmp_path, budget=0)
    watching = asyncio.create_task(house.keeper.watch())
    await until(lambda: house.measured, every=0)
    await house.load("lark")
    await until(lambda: house.keeper.room == pytest.approx(SHARE * 7 + 2))
    assert house.keeper.held == {"lark": 2.0}
    await house.fleet.unload("lark")
    await until(lambda: house.keeper.room == pytest.approx(SHARE * 9))
    watching.cancel()


async def test_it_goes_on_after_a_moment_in_which_nothing_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say, since no file can be opened."""
    house, blind = House(tmp_path, budget=0), []

    def look() -> Machine:
        blind.append(True)
        raise OSError("Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(house.keeper, "_look", look)
        watching = asyncio.create_task(house.keeper.watch())
        await until(lambda: blind, every=0)
    await house.load("lark")
    await until(lambda: house.measured and house.keeper.held == {"lark": 2.0})
    watching.cancel()
