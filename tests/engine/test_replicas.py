"""Several engines as one, of engines without a model: who gets what, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fake_engine import TONE_MODEL, ToneTransport
from tests.waiting import PATIENCE, until
from voxrtc.engine import keeping
from voxrtc.engine import replicas as replicas_module
from voxrtc.engine.client import EngineClient, Transport
from voxrtc.engine.link import AGAIN
from voxrtc.engine.replicas import SILENT, Replicas
from voxrtc.engine.server import EngineServer
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages.conversation import Forget, Hear, Heard
from voxrtc.messages.engine import (
    Cancel,
    Chunk,
    Ended,
    EngineReply,
    Extend,
    Failed,
    ForgetVoice,
    Generate,
    GetStats,
    Reference,
    SetPolicy,
    SetReplicas,
    Stats,
)
from voxrtc.messages.model import GetModels, Models, Progress

pytestmark = pytest.mark.anyio
numbers = itertools.count()
WHY = ("nobody", "OSError", "ValueError: no such path")


class Unfit(ToneTransport):
    """There is no room for it."""

    def find(self) -> None:
        self.on_reply(Progress(state="failed", message="CUDA out of memory"))


class ToneHost:
    """Runs tones; one whose name is `missing` finds no place, and says so; one that is `unfit` cannot be loaded."""

    def __init__(self) -> None:
        self.found: dict[str, ToneTransport] = {}
        self.stopped: list[str] = []
        self.missing: set[str] = set()
        self.waiting: list[str] = []
        self.unfit: set[str] = set()

    async def find(self, name: str, tell: Callable[[str], None]) -> Transport:
        if name in self.missing:
            self.waiting.append(name)
            tell("waiting for a machine")
            await asyncio.Event().wait()
        self.found[name] = transport = Unfit() if name in self.unfit else ToneTransport(speed=200.0)
        return transport

    async def stop(self, name: str) -> None:
        self.stopped.append(name)

    async def close(self) -> None: ...


@dataclass
class Listener:
    """What came of one stream."""

    name: str
    replies: list[EngineReply] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, reply: EngineReply) -> None:
        self.replies.append(reply)
        self.changed.set()

    async def until(self, kind: type[EngineReply]) -> EngineReply:
        while not (found := [reply for reply in self.replies if isinstance(reply, kind)]):
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), PATIENCE)
        return found[0]


class Clock:
    """The time, of which more passes at a word."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@dataclass
class House:
    """Replicas over tones, as the server has them."""

    host: ToneHost
    replicas: Replicas
    told: list[Progress]
    opened: list[str]
    clock: Clock

    def say(self, text: str = "one two three", **more: Any) -> Listener:
        listener = Listener(f"stream-{next(numbers)}")
        request = Generate(stream=listener.name, text=text, accepted=time.monotonic(), **more)
        self.replicas.submit(request, listener)
        return listener

    async def asked(self, question: GetStats | GetModels, kind: type[EngineReply]) -> EngineReply:
        listener = Listener("")
        self.replicas.submit(question, listener)
        return await listener.until(kind)

    async def looks(self, times: int = 1) -> None:
        """Until they have looked so often at each that is there."""
        seen, each = [len(self.questions(name)) for name in self.host.found], list(self.host.found)
        await until(lambda: any(len(self.questions(n)) >= k + times for n, k in zip(each, seen, strict=True)), every=0)

    def questions(self, name: str) -> list[GetStats]:
        """How it is, as a replica was asked."""
        return [request for request in self.host.found[name].requests if isinstance(request, GetStats)]

    async def passes(self, seconds: float) -> None:
        """Time, with looks in between."""
        for _ in range(round(2 * seconds)):
            self.clock.ahead += 0.5
            await self.looks()

    def speaker(self, listener: Listener) -> str:
        """Which replica was asked last for a stream."""
        return next(
            name
            for name, transport in reversed(self.host.found.items())
            if any(isinstance(r, Generate) and r.stream == listener.name for r in transport.requests)
        )


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(replicas_module, "LOOK_EVERY", 0.01)
    host, told, opened, clock = ToneHost(), list[Progress](), list[str](), Clock()
    replicas = Replicas(host, 2, told.append, lambda _, info: opened.append(info.name), clock)
    made = House(host, replicas, told, opened, clock)
    await until(lambda: len(host.found) == 2)
    yield made
    await replicas.close()


async def test_streams_are_shared_out_and_what_they_are_told_is_theirs(house: House) -> None:
    assert house.opened == ["tone"]
    listeners = [house.say() for _ in range(6)]
    for listener in listeners:
        await listener.until(Ended)
        assert [reply.stream for reply in listener.replies] == [listener.name] * 4  # type: ignore[union-attr]
        timing = next(reply.timing for reply in listener.replies if isinstance(reply, Chunk) and reply.timing)
        assert abs(timing.received - timing.accepted) < 5
    said = [house.speaker(listener) for listener in listeners]
    assert sorted(said) == ["replica-0"] * 3 + ["replica-1"] * 3


async def test_what_concerns_a_stream_goes_where_it_is(house: House) -> None:
    listener = house.say("one two ", final=False)
    await listener.until(Chunk)
    house.replicas.submit(Extend(stream=listener.name, text="three", final=True), listener)
    await listener.until(Ended)
    assert sum(isinstance(reply, Chunk) for reply in listener.replies) == 3
    other = house.say("many " * 50)
    await other.until(Chunk)
    house.replicas.submit(Cancel(stream=other.name), other)
    await until(lambda: any(isinstance(r, Cancel) for r in house.host.found[house.speaker(other)].requests))


async def test_a_recording_is_made_into_a_voice_once(house: House) -> None:
    mine, yours = (Reference(pcm=sound, sample_rate=8000) for sound in (b"mine", b"yours"))
    places: dict[bytes, set[str]] = {b"mine": set(), b"yours": set()}
    for reference in (mine, yours, mine, yours, mine):
        listener = house.say(reference=reference)
        await listener.until(Ended)
        places[reference.pcm].add(house.speaker(listener))
    assert len(places[b"mine"]) == len(places[b"yours"]) == 1


async def test_a_conversation_is_heard_and_answered_in_one_place(house: House) -> None:
    nobody = Listener("")
    for person in "ab":
        for turn in "12":
            for first, final in ((True, False), (False, True)):
                hear = Hear(hearing=f"{person}/{turn}", pcm=b"", sample_rate=16_000, first=first, final=final)
                house.replicas.submit(hear, nobody)
    await until(lambda: sum(isinstance(r, Hear) for t in house.host.found.values() for r in t.requests) == 8)
    where = {r.hearing: name for name, t in house.host.found.items() for r in t.requests if isinstance(r, Hear)}
    assert where["a/1"] == where["a/2"] and where["b/1"] == where["b/2"]
    for person in "ab":
        turns = tuple(Heard(hearing=f"{person}/{turn}") for turn in "12")
        for _ in range(3):
            listener = house.say("one two three", conversation=turns)
            await listener.until(Ended)
            assert house.speaker(listener) == where[f"{person}/2"]
    house.replicas.submit(Forget(hearing="a/1"), nobody)
    await until(lambda: any(isinstance(r, Forget) for r in house.host.found[where["a/1"]].requests))
    house.replicas.submit(ForgetVoice(digest="x"), nobody)
    await until(lambda: all(any(isinstance(r, ForgetVoice) for r in t.requests) for t in house.host.found.values()))


async def test_who_has_heard_nothing_yet_begins_anew_elsewhere_and_others_are_told(house: House) -> None:
    for transport in house.host.found.values():
        transport.speed = 0.5  # five words a second
    silent, other = house.say("one"), house.say(" ".join(["many"] * 50))
    await until(lambda: sum(isinstance(r, Generate) for t in house.host.found.values() for r in t.requests) == 2)
    lost = house.host.found[house.speaker(silent)]
    lost.lose()
    ended = await silent.until(Ended)
    assert isinstance(ended, Ended) and not any(isinstance(reply, Failed) for reply in silent.replies)

    await other.until(Chunk)
    house.host.found[house.speaker(other)].lose()
    failed = await other.until(Failed)
    assert isinstance(failed, Failed) and failed.code == "engine_lost"
    again = house.say()  # on one that was found again, or is being
    await again.until(Ended)


async def test_nobody_left_is_said_at_once(house: House) -> None:
    house.host.missing = {"replica-0", "replica-1"}
    for transport in list(house.host.found.values()):
        transport.lose()
    request = Generate(stream="x", text="hello", accepted=0.0)
    refusal = house.replicas.refusal(request)
    assert refusal and refusal.code == "engine_lost"
    failed = await house.say().until(Failed)
    assert isinstance(failed, Failed) and failed.code == "engine_lost"


async def test_a_drained_replica_ends_after_its_streams_and_takes_no_more(house: House) -> None:
    for transport in house.host.found.values():
        transport.speed = 1.0
    slow = [house.say("one two three four five"), house.say("one two three four five")]
    await slow[1].until(Chunk)
    house.replicas.submit(SetReplicas(count=1), Listener(""))
    later = [house.say("a") for _ in range(3)]
    for listener in (*later, *slow):
        await listener.until(Ended)
        assert not any(isinstance(reply, Failed) for reply in listener.replies)
    assert {house.speaker(listener) for listener in later} == {"replica-0"}
    await until(lambda: house.host.stopped == ["replica-1"])
    house.replicas.submit(SetReplicas(count=3), Listener(""))
    await until(lambda: {"replica-0", "replica-1", "replica-2"} <= house.host.found.keys())


async def test_of_too_many_those_go_that_do_not_work_and_then_those_that_have_least_to_do(house: House) -> None:
    house.host.missing = {"replica-0"}
    house.host.found["replica-0"].lose()
    house.replicas.submit(SetReplicas(count=3), Listener(""))
    await until(lambda: "replica-2" in house.host.found)  # they are three, of which two speak
    listeners = [house.say("many " * 500) for _ in range(3)]
    for listener in listeners:
        await listener.until(Chunk)
    (busiest, _), *_ = Counter(map(house.speaker, listeners)).most_common()
    house.replicas.submit(SetReplicas(count=1), Listener(""))
    listener = house.say()
    await listener.until(Ended)
    assert house.speaker(listener) == busiest != "replica-0"
    await until(lambda: house.host.stopped == ["replica-0"])


async def test_one_that_no_place_was_found_for_can_be_given_up(house: House) -> None:
    house.host.missing = {"replica-2"}
    house.replicas.submit(SetReplicas(count=3), Listener(""))
    house.replicas.submit(SetReplicas(count=2), Listener(""))
    await until(lambda: house.host.stopped == ["replica-2"])


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


async def test_they_answer_as_one(house: House) -> None:
    stats = await house.asked(GetStats(call=7), Stats)
    assert isinstance(stats, Stats) and stats.call == 7 and [each.name for each in stats.replicas] == ["replica-0", "replica-1"]
    models = await house.asked(GetModels(call=8), Models)
    assert isinstance(models, Models) and models.models == [TONE_MODEL]
    house.replicas.submit(SetPolicy(policy="fifo"), Listener(""))
    await until(lambda: all(transport.policy == "fifo" for transport in house.host.found.values()))
    house.host.found["replica-1"].lose()
    await until(lambda: house.host.found["replica-1"].policy == "fifo" and not house.host.found["replica-1"].lost)


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
    clock.ahead += AGAIN
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
    house.clock.ahead += AGAIN
    await until(lambda: house.replicas.refusal(Generate(stream="x", text="hello", accepted=0.0)) is None)
    assert await house.asked(GetModels(call=2), Models)


async def test_a_router_that_stood_ends_none(house: House) -> None:
    """What a replica has answered meanwhile is not read yet."""
    waiting = house.host.found["replica-1"]
    waiting.mute = True
    await house.looks(2)
    house.clock.ahead += 6 * SILENT
    waiting.mute = False
    await house.looks(1)
    for question in house.questions("replica-1"):
        waiting.send(question)
    await house.passes(2)
    assert not house.host.stopped
