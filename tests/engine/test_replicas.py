"""Several engines as one, of engines without a model: who gets what, and what happens when one is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.engine.replicated import House, Listener, housed
from tests.fake_engine import TONE_MODEL
from tests.waiting import until
from voxrtc.messages.conversation import Forget, Hear, Heard
from voxrtc.messages.engine import (
    Cancel,
    Chunk,
    Ended,
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
from voxrtc.messages.model import GetModels, Models

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    async with housed(monkeypatch) as house:
        yield house


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


async def test_they_answer_as_one(house: House) -> None:
    stats = await house.asked(GetStats(call=7), Stats)
    assert isinstance(stats, Stats) and stats.call == 7 and [each.name for each in stats.replicas] == ["replica-0", "replica-1"]
    models = await house.asked(GetModels(call=8), Models)
    assert isinstance(models, Models) and models.models == [TONE_MODEL]
    house.replicas.submit(SetPolicy(policy="fifo"), Listener(""))
    await until(lambda: all(transport.policy == "fifo" for transport in house.host.found.values()))
    house.host.found["replica-1"].lose()
    await until(lambda: house.host.found["replica-1"].policy == "fifo" and not house.host.found["replica-1"].lost)
