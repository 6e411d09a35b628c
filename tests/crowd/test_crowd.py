"""Virtual listeners, in a time of the test's own: who comes and goes, what they hear, and what is told of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.crowd.theatre import Theatre, Time
from tests.fake_engine import TONE_MODEL
from voxrtc.crowd.crowd import EVERY, LONELY, MINUTE, SAMPLE, Crowd, NoModel
from voxrtc.messages.engine import Generate

pytestmark = pytest.mark.anyio


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def theatre(time: Time) -> Theatre:
    return Theatre(time)


@pytest.fixture
async def crowd(time: Time, theatre: Theatre) -> AsyncIterator[Crowd]:
    crowd = Crowd(theatre, 20, clock=time.clock, sleep=time.sleep, rng=random.Random(1))
    yield crowd
    await crowd.close()


def phases(crowd: Crowd) -> list[str]:
    return [voice.phase for voice in crowd.look().voices]


async def test_they_come_one_after_another_in_the_background_and_never_stop(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(8)
    await time.passes(2.5 * EVERY)
    assert len(theatre.requests) == 3, "not all in one blow"
    await time.passes(60)
    assert all(request.background and request.model == "tone" for request in theatre.requests)
    assert len({request.stream for request in theatre.requests}) == len(theatre.requests) > 40
    assert len({request.text for request in theatre.requests}) > 20
    assert len(theatre.live) <= 8
    state = crowd.look()
    assert (state.listeners, state.model, len(state.voices)) == (8, "tone", 8)


async def test_a_player_keeps_the_speed_of_speech_and_tells_the_engine(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(1)
    await time.passes(30)
    for clocks in theatre.clocks.values():
        first = clocks[0]
        for clock in clocks:
            assert clock.running and clock.played == pytest.approx(clock.at - first.at), "never dry, so it plays with time"
    spoken = [request.accepted for request in theatre.requests]
    lengths = [max(1, round(len(request.text) / 14 / 0.2)) * 0.2 for request in theatre.requests]
    for began, seconds, following in zip(spoken, lengths, spoken[1:], strict=False):
        assert 0.3 <= following - began - (seconds + 0.05) <= 1.5, "the sound, heard to its end, and a pause"


async def test_what_comes_in_time_is_viable(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(4)
    await time.passes(40)
    figures = crowd.look().figures["playout"]
    assert figures.started == len(theatre.clocks) > 10 and figures.dry == 0 and figures.listeners == 4
    assert figures.p50_ttfa == figures.p90_ttfa == pytest.approx(0.05)
    assert all(point.spoilt == 0 for point in crowd.look().line)


async def test_what_runs_dry_is_not(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    theatre.speed = 0.5
    crowd.resize(4)
    dry = set()
    for _ in range(20):
        await time.passes(0.1)
        dry |= {voice.number for voice in crowd.look().voices if voice.phase == "dry"}
        assert all(voice.slack == 0 for voice in crowd.look().voices if voice.phase != "playing")
    assert len(dry) >= 3, "0.2 s of sound every 0.4 s, but who has little to hear"
    await time.passes(40)
    figures = crowd.look().figures["playout"]
    several = sum(len(clocks) > 1 for clocks in theatre.clocks.values())
    assert figures.started == len(theatre.clocks) and several - 4 <= figures.dry <= figures.started
    assert any(voice.spoilt for voice in crowd.look().voices)
    assert any(point.spoilt == point.playing > 0 for point in crowd.look().line)


async def test_slack_drains_with_time(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    theatre.speed = 100.0
    crowd.resize(1)
    await time.passes(0.5)
    (before,) = crowd.look().voices
    await time.passes(0.5)
    (after,) = crowd.look().voices
    assert before.phase == "playing" and before.slack - after.slack == pytest.approx(0.5, abs=0.011)


async def test_who_waits_shows_the_place(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    theatre.queue = 5.0
    crowd.resize(2)
    await time.passes(1)
    assert [(voice.phase, voice.place) for voice in crowd.look().voices] == [("waiting", 3)] * 2
    assert crowd.look().line[-1].waiting == 2
    await time.passes(10)
    assert crowd.look().figures["playout"].p50_ttfa == pytest.approx(5.05)


async def test_the_latest_leave_first_and_their_streams_end(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(6)
    await time.passes(5)
    crowd.resize(2)
    await time.passes(0)
    assert [voice.number for voice in crowd.look().voices] == [1, 2] and len(theatre.live) <= 2
    crowd.resize(3)
    assert [voice.number for voice in crowd.look().voices] == [1, 2, 7]
    crowd.resize(0)
    await time.passes(0)
    assert not theatre.live and not crowd.look().voices
    await time.passes(SAMPLE)
    asked, state = len(theatre.requests), crowd.look()
    await time.passes(60)
    assert len(theatre.requests) == asked and crowd.look() == state, "what stands still is no news"


async def test_a_switch_counts_anew_and_keeps_what_was(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(4)
    await time.passes(20)
    before = crowd.look().figures["playout"]
    crowd.plan_by("fifo")
    theatre.speed = 0.5
    running = set(theatre.live)
    await time.passes(20)
    figures = crowd.look().figures
    assert theatre.policies == ["fifo"] and crowd.look().policy == "fifo"
    assert figures["playout"] == before, "frozen, though its streams run dry now"
    assert running and figures["fifo"].started < len(theatre.clocks) - before.started + 1
    assert figures["fifo"].dry > 0 and figures["fifo"].seconds == pytest.approx(20)
    crowd.plan_by("fifo")
    assert crowd.look().figures["fifo"] == figures["fifo"], "it holds already"
    crowd.plan_by("playout")
    assert crowd.look().figures["playout"].started == 0
    assert [point.policy for point in crowd.look().line][-39:] == ["fifo"] * 39


async def test_another_size_counts_anew(crowd: Crowd, time: Time) -> None:
    crowd.resize(4)
    await time.passes(20)
    crowd.resize(5)
    assert (crowd.look().figures["playout"].listeners, crowd.look().figures["playout"].started) == (5, 0)
    await time.passes(20)
    crowd.resize(5)
    before = crowd.look().figures["playout"]
    assert before.started > 0, "the same size changes nothing"
    crowd.resize(0)
    await time.passes(20)
    assert crowd.look().figures["playout"] == before, "what was found is still to be read when all have left"


@pytest.mark.parametrize(("code", "counted"), [("gave_way", "gave_way"), ("busy", "refused")])
async def test_who_is_turned_away_says_so_and_comes_again(
    code: str, counted: str, crowd: Crowd, theatre: Theatre, time: Time
) -> None:
    theatre.failure = code
    crowd.resize(3)
    await time.passes(1)
    assert phases(crowd) == ["away"] * 3 and getattr(crowd.look().figures["playout"], counted) == 3
    assert {voice.cause for voice in crowd.look().voices} == {code}
    theatre.failure = ""
    await time.passes(10)
    assert len(theatre.clocks) >= 3 and "away" not in phases(crowd)
    assert {voice.cause for voice in crowd.look().voices} == {""}


async def test_who_gives_way_amid_its_sound_did_not_run_dry(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    theatre.speed = 1.05
    crowd.resize(1)
    while not theatre.clocks:
        await time.passes(0.1)
    theatre.broken |= theatre.live
    await time.passes(1)
    figures = crowd.look().figures["playout"]
    assert (figures.started, figures.dry, figures.gave_way) == (1, 0, 1) and phases(crowd) == ["away"]


async def test_an_engine_that_is_restarted_is_waited_for(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    theatre.failure = "engine_lost"
    crowd.resize(3)
    await time.passes(20)
    assert crowd.size == 3 and 10 < len(theatre.requests) < 60, "and not stormed"
    assert {voice.cause for voice in crowd.look().voices if voice.phase == "away"} == {"engine_lost"}
    theatre.failure = ""
    await time.passes(10)
    assert theatre.clocks and crowd.look().trouble == ""


@pytest.mark.parametrize("code", ["model_not_found", "model_failed"])
async def test_a_model_that_is_gone_ends_the_crowd_and_says_why(code: str, crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(3)
    await time.passes(5)
    theatre.failure, theatre.known = code, []
    await time.passes(20)
    assert crowd.size == 0 and "tone" in crowd.look().trouble
    with pytest.raises(NoModel, match="Load one"):
        crowd.resize(1)
    theatre.failure, theatre.known = "", [TONE_MODEL]
    crowd.resize(1)
    assert crowd.look().trouble == ""


async def test_another_model_has_other_listeners(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    theatre.known.append(msgspec.structs.replace(TONE_MODEL, name="bird"))
    crowd.resize(2)
    await time.passes(2)
    crowd.resize(2, model="bird")
    await time.passes(2)
    assert [voice.number for voice in crowd.look().voices] == [3, 4]
    assert all(by_stream(theatre)[stream].model == "bird" for stream in theatre.live)
    crowd.resize(3)
    assert crowd.look().model == "bird", "the one that it had"
    with pytest.raises(NoModel, match="gull"):
        crowd.resize(3, model="gull")
    assert crowd.size == 3


def by_stream(theatre: Theatre) -> dict[str, Generate]:
    return {request.stream: request for request in theatre.requests}


async def test_a_crowd_that_nobody_looks_at_ends(crowd: Crowd, theatre: Theatre, time: Time) -> None:
    crowd.resize(2)
    for _ in range(4):
        await time.passes(LONELY / 2)
        assert crowd.look().listeners == 2
    await time.passes(LONELY - 1)
    assert crowd.size == 2
    await time.passes(2)
    assert crowd.size == 0 and not theatre.live
    asked = len(theatre.requests)
    await time.passes(60)
    assert len(theatre.requests) == asked


@pytest.mark.parametrize("listeners", [0, 2])
async def test_a_policy_that_nobody_looks_at_goes_with_the_crowd(
    listeners: int, crowd: Crowd, theatre: Theatre, time: Time
) -> None:
    await time.passes(2 * LONELY)
    crowd.resize(listeners)
    await time.passes(LONELY - 1)
    crowd.plan_by("fifo")
    await time.passes(LONELY - 1)
    crowd.look()
    await time.passes(LONELY - 1)
    assert theatre.policies == ["fifo"], "somebody looked"
    await time.passes(2)
    assert theatre.policies == ["fifo", "playout"]
    await time.passes(60)
    assert crowd.look().policy == "playout" and theatre.policies == ["fifo", "playout"]


async def test_an_empty_room_under_another_policy_is_no_news(crowd: Crowd, time: Time) -> None:
    crowd.plan_by("fifo")
    before = crowd.look()
    await time.passes(60)
    assert crowd.look() == before
    crowd.resize(2)
    await time.passes(20)
    crowd.resize(0)
    await time.passes(1)
    before = crowd.look()
    assert before.line[-1].playing == 0
    await time.passes(60)
    assert crowd.look() == before


async def test_the_line_is_of_a_minute(crowd: Crowd, time: Time) -> None:
    crowd.resize(1)
    for _ in range(10):
        await time.passes(MINUTE / 5)
        crowd.look()
    line = crowd.look().line
    assert len(line) == MINUTE / SAMPLE and line[-1].at - line[0].at == pytest.approx(MINUTE - SAMPLE)


@settings(max_examples=25)
@given(data=st.data())
def test_whatever_is_wished_for_is_there_and_no_more(data: st.DataObject) -> None:
    async def play() -> None:
        time = Time()
        theatre = Theatre(time, speed=data.draw(st.sampled_from([0.5, 1.0, 4.0])))
        crowd = Crowd(theatre, 9, clock=time.clock, sleep=time.sleep, rng=random.Random(0))
        for _ in range(data.draw(st.integers(1, 8))):
            size = data.draw(st.integers(0, 9))
            crowd.resize(size)
            if data.draw(st.booleans()):
                crowd.plan_by(data.draw(st.sampled_from(["fifo", "two_phase", "playout"])))
            theatre.failure = data.draw(st.sampled_from(["", "", "busy", "gave_way", "engine_lost"]))
            await time.passes(data.draw(st.floats(0, 12)))
            state = crowd.look()
            numbers = [voice.number for voice in state.voices]
            assert state.listeners == len(numbers) == len(set(numbers)) == size and len(theatre.live) <= size
            for figures in state.figures.values():
                assert 0 <= figures.dry <= figures.started
            assert all(point.spoilt <= point.playing for point in state.line)
        await crowd.close()
        assert not theatre.live and len(asyncio.all_tasks()) == 1

    asyncio.run(play())
