"""Replicas that have no place, hang, or cannot be loaded, and a host that fails: they are tried anew, and others go on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.engine.replicated import Clock, House, Listener, ToneHost, Unfit, housed
from tests.fake_engine import ToneTransport
from tests.waiting import PATIENCE, until
from voxrtc.engine import keeping
from voxrtc.engine.client import EngineClient, Transport
from voxrtc.engine.link import AGAIN
from voxrtc.engine.replicas import SILENT, Replicas
from voxrtc.engine.server import EngineServer
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages.engine import (
    Ended,
    Failed,
    Generate,
    SetReplicas,
)
from voxrtc.messages.model import GetModels, Models, Progress

pytestmark = pytest.mark.anyio
WHY = ("nobody", "OSError", "ValueError: no such path")


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    async with housed(monkeypatch) as house:
        yield house


async def test_one_without_a_place_takes_no_model_away_that_others_speak(tmp_path: Path) -> None:
    host = ToneHost()
    host.missing = {"replica-1"}
    server = EngineServer("tone", f"ipc://{tmp_path}/engine")
    threading.Thread(target=server.serve, daemon=True).start()
    replicas = Replicas(host, 1, server.tell, server.open)
    client = EngineClient(ZmqTransport(server.address))
    await asyncio.wait_for(client.until(lambda: client.state == "ready"), PATIENCE)
    replicas.submit(SetReplicas(count=2), Listener(""))
    await until(lambda: host.waiting == ["replica-1"])
    for name in "ab":
        request = Generate(stream=name, text="one two", accepted=time.monotonic())
        assert len([reply async for reply in client.generate(request)]) == 2
    assert (await client.stats()).replicas and client.state == "ready"
    await client.close()
    await replicas.close()


async def test_a_host_that_fails_is_asked_again_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    host, told, pauses = ToneHost(), list[Progress](), list[float]()
    find, wrong = host.find, [ConnectionError("nobody"), OSError(), RuntimeError("Traceback:\n  x\nValueError: no such path")]

    async def failing(name: str, tell: Callable[[str], None]) -> Transport:
        if wrong:
            raise wrong.pop(0)
        return await find(name, tell)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(host, "find", failing)
    monkeypatch.setattr(keeping, "sleep", sleep)
    replicas = Replicas(host, 1, told.append, lambda _, info: None)
    await until(lambda: host.found)
    host.found["replica-0"].lose()
    wrong.append(OSError())
    await until(lambda: len(pauses) == 4)
    assert pauses == [0.5, 1, 2, 0.5]
    assert [progress.stage for progress in told] == [f"trying again: {why}" for why in WHY]
    await replicas.close()


async def test_what_is_waited_for_is_told_until_the_first_is_ready() -> None:
    host, told = ToneHost(), list[Progress]()
    host.missing = {"replica-0"}
    replicas = Replicas(host, 1, told.append, lambda _, info: None)
    await until(lambda: [progress.stage for progress in told] == ["waiting for a machine"])
    await replicas.close()


async def test_one_that_does_not_answer_is_ended_and_started_anew(house: House) -> None:
    mute = house.host.found["replica-1"]
    mute.mute = True
    await house.passes(SILENT - 1)
    assert not house.host.stopped
    await house.passes(2)
    await until(lambda: house.host.found["replica-1"] is not mute)
    await house.passes(SILENT + 2)
    assert house.host.stopped == ["replica-1"]
    listeners = [house.say() for _ in range(4)]
    for listener in listeners:
        await listener.until(Ended)
    assert {house.speaker(listener) for listener in listeners} == {"replica-0", "replica-1"}


async def test_one_that_cannot_be_loaded_again_is_tried_anew_later_and_later(house: House) -> None:
    house.host.unfit = {"replica-1"}
    house.host.found["replica-1"].lose()
    for time_, pause in enumerate((AGAIN, 2 * AGAIN), 1):
        await until(lambda: isinstance(house.host.found["replica-1"], Unfit))
        await house.passes(pause - 1)
        assert len(house.host.stopped) == time_ - 1
        del house.host.found["replica-1"]
        await house.passes(2)
        await until(lambda: "replica-1" in house.host.found)
        assert house.host.stopped == ["replica-1"] * time_
    house.host.unfit = set()
    await house.passes(4 * AGAIN + 1)
    await until(lambda: type(house.host.found["replica-1"]) is ToneTransport)
    assert {progress.state for progress in house.told} <= {"loading"}, "the model is ready all the while"


async def test_one_that_failed_before_the_first_was_ready_is_tried_anew_as_well() -> None:
    host, told, opened, clock = ToneHost(), list[Progress](), list[str](), Clock()
    host.unfit = {"replica-0"}
    replicas = Replicas(host, 2, told.append, lambda _, info: opened.append(info.name), clock)
    await until(lambda: opened == ["tone"])
    assert [progress.state for progress in told] == ["failed"]
    host.unfit, first = set(), host.found["replica-0"]
    clock.now += AGAIN
    await until(lambda: host.found["replica-0"] is not first)
    await replicas.close()


async def test_a_model_of_which_none_is_ready_does_not_answer(house: House) -> None:
    house.host.unfit = {"replica-0", "replica-1"}
    for transport in list(house.host.found.values()):
        transport.lose()
    await until(lambda: all(isinstance(transport, Unfit) for transport in house.host.found.values()))
    unanswered = Listener("")
    house.replicas.submit(GetModels(call=1), unanswered)
    failed = await house.say().until(Failed)  # it comes after
    assert isinstance(failed, Failed) and failed.code == "engine_lost" and not unanswered.replies
    house.host.unfit = set()
    house.clock.now += AGAIN
    await until(lambda: house.replicas.refusal(Generate(stream="x", text="hello", accepted=0.0)) is None)
    assert await house.asked(GetModels(call=2), Models)


async def test_a_router_that_stood_ends_none(house: House) -> None:
    """What a replica has answered meanwhile is not read yet."""
    waiting = house.host.found["replica-1"]
    waiting.mute = True
    await house.looks(2)
    house.clock.now += 6 * SILENT
    waiting.mute = False
    await house.looks(1)
    for question in house.questions("replica-1"):
        waiting.send(question)
    await house.passes(2)
    assert not house.host.stopped
