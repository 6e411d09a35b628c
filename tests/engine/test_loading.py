"""Models that come and go in processes of their own, while others speak."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tests.cards import TINY, fetched, lark_card, pocket_card
from tests.engine.test_process import TEXT, request
from tests.fake_hub import Hub, serving
from tests.program import alive
from tests.waiting import answered, until
from voxrtc.cards import Card, read_card
from voxrtc.engine.client import StreamFailed
from voxrtc.engine.fleet import Fleet, InUse, NotLoading
from voxrtc.engine.loading import Rate, Report
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages.engine import Chunk, Generate, Playout
from voxrtc.messages.model import Progress
from voxrtc.processes import EngineProcesses
from voxrtc.settings import Settings
from voxrtc.supervisor import Supervisor


@dataclass
class House:
    """A fleet with the supervisor that runs it."""

    fleet: Fleet
    supervisor: Supervisor

    def pid(self, model: str) -> int:
        process = self.supervisor.children[f"{model} engine"].process
        assert process is not None
        return process.pid

    async def settled(self, model: str) -> Progress:
        return await asyncio.wait_for(self.fleet.settled(model), 120)


@contextlib.asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    """Lark, and a card `tiny` that is not loaded."""
    models = folder / "models"
    if not (models / "lark.yaml").exists():
        models.mkdir(exist_ok=True)
        lark_card(models)
    cards: dict[str, Card] = {name: read_card(models, name) for name in ("lark", "tiny")}
    addresses = {name: f"ipc://{folder}/{number}" for number, name in enumerate(cards)}
    async with Supervisor() as supervisor:
        processes = EngineProcesses(supervisor, Settings(models=models, max_streams=4), cards, addresses)
        fleet = Fleet({name: ZmqTransport(address) for name, address in addresses.items()}, processes)
        yield House(fleet, supervisor)
        await fleet.close()


def by_tiny(text: str = "Hello.") -> Generate:
    return Generate(stream=f"tiny-{time.monotonic_ns()}", text=text, accepted=time.monotonic(), model="tiny")


async def refused(fleet: Fleet, wanted: Generate) -> StreamFailed:
    with pytest.raises(StreamFailed) as failure:
        async for _ in fleet.generate(wanted):
            pass
    return failure.value


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_model_comes_and_goes_while_another_speaks(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    pocket_card(tmp_path / "models")
    async with house(tmp_path) as it:
        fleet = it.fleet
        await fleet.load("lark")
        assert (await it.settled("lark")).state == "ready"
        assert (await refused(fleet, by_tiny())).code == "model_not_found"

        chunks: list[Chunk] = []
        speaking = asyncio.create_task(listen(fleet, request(TEXT * 6), chunks))
        await fleet.load("tiny")
        assert (await refused(fleet, by_tiny())).code in (
            "engine_lost",
            "model_loading",
        )  # before its socket is there, and after
        assert (await it.settled("tiny")).state == "ready"
        assert [model.name for model in fleet.known] == [model.name for model in await fleet.models()] == ["lark", "tiny"]
        began = time.monotonic()
        sound = [chunk async for chunk in fleet.generate(by_tiny()) if isinstance(chunk, Chunk)]
        assert sound and sum(len(chunk.pcm) for chunk in sound) % (2 * 1920) == 0
        use = await fleet.use("tiny")
        assert use.live == 0 and use.memory > 0.2 and began < use.last < time.monotonic()

        listener = fleet.generate(by_tiny(TEXT * 20))
        await anext(listener)
        assert (await fleet.use("tiny")).live == 1
        with pytest.raises(InUse, match="a listener"):
            await fleet.unload("tiny")
        assert set(await fleet.stats()) == {"lark", "tiny"}
        nobody = fleet.generate(msgspec.structs.replace(by_tiny(TEXT * 20), background=True))
        await anext(nobody)
        await listener.aclose()
        pid = it.pid("tiny")
        await until_unloaded(fleet)
        with pytest.raises(StreamFailed):  # a stream in the background is no listener
            async for _ in nobody:
                pass
        assert not alive(pid) and fleet.states()["tiny"].state == "unloaded"
        late = await refused(fleet, by_tiny())
        assert late.code == "model_not_found" and "is not loaded" in str(late) and "lark" in str(late)

        await asyncio.wait_for(speaking, 60)
        assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
        stats = (await fleet.stats())["lark"]
        assert (stats.finished, stats.failed, stats.cancelled) == (1, 0, 0)
        assert sum(len(chunk.pcm) for chunk in chunks) == 2 * 600 * stats.frames


async def listen(fleet: Fleet, wanted: Generate, chunks: list[Chunk]) -> None:
    """Keep all its sound, and play it at four times its speed, so that the engine is busy with it for a while."""
    began = time.monotonic()
    async for chunk in fleet.generate(wanted):
        assert isinstance(chunk, Chunk)
        chunks.append(chunk)
        now = time.monotonic()
        fleet.report(Playout(stream=wanted.stream, played=4 * (now - began), at=now, running=True))


async def until_unloaded(fleet: Fleet) -> None:
    """Unload the tiny model once its last stream has left the engine."""

    async def unload() -> bool:
        await fleet.unload("tiny")
        return True

    await answered(unload, InUse)


@pytest.mark.anyio
@pytest.mark.slow
async def test_an_engine_that_is_killed_harms_no_other_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    pocket_card(tmp_path / "models")
    async with house(tmp_path) as it:
        await asyncio.gather(it.fleet.load("lark"), it.fleet.load("tiny"))
        assert (await it.settled("lark")).state == (await it.settled("tiny")).state == "ready"
        speaking, other = it.fleet.generate(request(TEXT * 3)), it.fleet.generate(by_tiny(TEXT * 20))
        chunks = [await anext(speaking)]
        await anext(other)
        os.kill(it.pid("tiny"), signal.SIGKILL)
        with pytest.raises(StreamFailed) as lost:
            async for _ in other:
                pass
        assert lost.value.code == "engine_lost"
        assert [model.name for model in it.fleet.known] == ["lark", "tiny"], "it is being restarted"
        chunks += [chunk async for chunk in speaking]
        assert [chunk.index for chunk in chunks] == list(range(len(chunks)))  # type: ignore[union-attr]
        await until(lambda: it.fleet.states()["tiny"].state == "ready")
        assert [chunk async for chunk in it.fleet.generate(by_tiny())]


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_model_is_fetched_with_progress_and_can_be_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    pocket_card(tmp_path / "models", **fetched())
    hub = Hub(gate=threading.Event())
    hub.add("birds/tiny", TINY)
    with serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        async with house(tmp_path) as it:
            await it.fleet.load("tiny")
            half = await reached(it.fleet, lambda state: state.total and state.done > state.total // 4)
            assert half.stage == "downloading" and 0 < half.done < half.total
            early = await refused(it.fleet, by_tiny())
            assert early.code == "model_loading" and "downloading" in str(early) and early.retry_after
            pid = it.pid("tiny")
            assert (await it.fleet.use("tiny")).memory > 0.01
            await it.fleet.give_up("tiny")
            assert not alive(pid) and it.fleet.states()["tiny"].state == "unloaded"
            with pytest.raises(NotLoading, match="it is not loaded"):
                await it.fleet.give_up("tiny")

            hub.gate.set()  # type: ignore[union-attr]
            hub.asked.clear()
            await it.fleet.load("tiny")
            assert (await it.settled("tiny")).state == "ready"
            name, span = hub.downloads[0]
            assert span != "bytes=0-", f"{name} began anew"
            assert [chunk async for chunk in it.fleet.generate(by_tiny())]
            with pytest.raises(NotLoading, match="it is ready"):
                await it.fleet.give_up("tiny")


async def reached(fleet: Fleet, holds: Callable[[Progress], bool]) -> Progress:
    def look() -> Progress | None:
        state = fleet.states()["tiny"]
        if holds(state):
            return state
        assert state.state == "loading", state
        return None

    return await until(look)


@pytest.mark.anyio
async def test_a_failed_load_says_why_stays_and_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    pocket_card(tmp_path / "models", **fetched())
    with serving(Hub()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        async with house(tmp_path) as it:
            await it.fleet.load("tiny")
            failed = await it.settled("tiny")
            assert failed.state == "failed" and "no repository birds/tiny" in failed.message
            refusal = await refused(it.fleet, by_tiny())
            assert refusal.code == "model_failed" and "no repository" in str(refusal)
            assert it.supervisor.children["tiny engine"].restarts == 0
            first = it.pid("tiny")
            await it.fleet.load("tiny")
            assert it.fleet.states()["tiny"].state == "loading"
            assert (await it.settled("tiny")).state == "failed" and not alive(first)


@pytest.mark.anyio
async def test_a_process_that_dies_while_loading_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    pocket_card(tmp_path / "models", **fetched(), needs={"memory": 13.7, "stream": 0.1, "compute": 1})
    hub = Hub(gate=threading.Event())
    hub.add("birds/tiny", TINY)
    with serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        async with house(tmp_path) as it:
            await it.fleet.load("tiny")
            await reached(it.fleet, lambda state: state.total)
            os.kill(it.pid("tiny"), signal.SIGKILL)
            failed = await it.settled("tiny")
            assert failed.state == "failed" and "code -9" in failed.message and "13.7 GB" in failed.message
            await it.fleet.load("tiny")
            assert it.fleet.states()["tiny"].state == "loading"


def test_progress_is_told_often_and_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    now, told = 0.0, []
    report = Report("tiny", told.append, clock=lambda: now)
    with caplog.at_level("INFO"):
        for step in range(1001):
            now = step * 0.01
            report.downloaded(step * 1_000_000, 1_000_000_000)
    assert all(progress.rate == pytest.approx(1e8) for progress in told[1:])
    assert 45 <= len(told) <= 55 and told[-1].done == told[-1].total == 1_000_000_000
    assert [record.message for record in caplog.records] == [
        "tiny: downloading, 0 of 1000 MB",
        "tiny: downloading, 500 of 1000 MB",
        "tiny: downloading, 1000 of 1000 MB",
    ]


def test_the_rate_of_a_download_follows_what_comes() -> None:
    now = 0.0
    rate = Rate(clock=lambda: now)
    assert rate.arrived(500) == 0, "what was there before has not come now"
    told = []
    for second in range(1, 21):
        now = float(second)
        told.append(rate.arrived(500 + 1000 * min(second, 10)))
    assert told[:10] == [1000.0] * 10 and told[10] < 700 and 0 < told[-1] < 20
