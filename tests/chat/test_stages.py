"""Where the time of a turn went: what the client is told, and what the tally makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat.stage import LONG, Stage, until
from tests.chat.test_listening import said
from tests.fake_chat import Answers
from voxrtc.chat.stages import Marks, Turn
from voxrtc.chat.tally import Tally
from voxrtc.messages.engine import Timing
from voxrtc.recent import Latency

STAGES = ("token", "clause", "queue", "prompt", "first_frame", "first_chunk", "track")


@given(st.lists(st.floats(0, 10), min_size=10, max_size=10), st.booleans())
def test_stages_are_never_negative_and_make_up_the_whole(gaps: list[float], replied: bool) -> None:
    times = [sum(gaps[: number + 1]) for number in range(10)]
    end, over, asked, token, accepted, received, ready, step, frame, chunk = times
    timing = Timing(
        accepted=accepted, received=received, prompt_ready=ready, first_step=step, first_frame=frame, first_chunk=chunk
    )
    told = Marks(asked, Turn(end, over), token if replied else None).told(timing, chunk + 0.02)
    assert all(each is not None and each >= -0.01 for each in told.values())
    assert sum(told[stage] or 0 for stage in STAGES) == pytest.approx(told["total"], abs=0.1)
    whole = sum(told[stage] or 0 for stage in ("silence", "words", "total"))
    assert whole == pytest.approx(1000 * (chunk + 0.02 - end), abs=0.1)
    assert (told["clause"] == 0) is (not replied) or token == accepted


def test_what_was_typed_was_never_spoken() -> None:
    timing = Timing(accepted=1.0, received=1.0, prompt_ready=1.0, first_step=1.0, first_frame=1.0, first_chunk=1.0)
    told = Marks(1.0).told(timing, 1.5)
    assert (told["silence"], told["words"], told["total"], told["server_time"]) == (None, None, 500.0, 1500.0)


async def test_a_spoken_turn_is_told_from_the_end_of_speech() -> None:
    async with Stage(replier=Answers("Indeed it did.")) as stage:
        said(stage)
        timing = await stage.event("voxrtc.timing")
        await stage.event("voxrtc.playout")
    assert timing["silence"] >= 0 and timing["words"] >= 0
    (spoke,) = stage.tally.spoke().values()
    assert (spoke.responses, spoke.ttfa.count, spoke.turn.count) == (1, 1, 1)
    assert spoke.turn.p50_ms == pytest.approx(timing["silence"] + timing["words"] + timing["total"], abs=0.2)


async def test_typed_text_after_a_spoken_turn_is_not_an_answer_to_it() -> None:
    async with Stage() as stage:
        said(stage)
        await stage.event("conversation.item.input_audio_transcription.completed")
        stage.say("one two")
        timing = await stage.event("voxrtc.timing")
    assert timing["silence"] is None
    assert stage.tally.spoke()["tone"].turn == Latency()


async def test_later_pieces_say_that_their_listener_hears_us() -> None:
    async with Stage(replier=Answers("It went down to the sea. Then it came back, and that was all. Well.")) as stage:
        said(stage)
        await stage.event("output_audio_buffer.stopped")
    assert [request.continues for request in stage.generated()] == [False, True, True]


async def test_a_response_that_is_cut_off_counts_its_underruns() -> None:
    tally = Tally(lambda: 0.0)
    tally.ended("tone", 2)
    tally.ended("tone", 1)
    assert tally.spoke()["tone"].underruns == 3
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.do("output_audio_buffer.clear")
        await until(lambda: stage.all("voxrtc.playout"))
    assert stage.tally.spoke()["tone"].underruns == stage.all("voxrtc.playout")[0]["underruns"]


async def test_the_network_is_kept_and_nonsense_refused() -> None:
    async with Stage() as stage:
        stage.do("voxrtc.network", network={"rtt_ms": 20.5, "loss": 0.02})
        assert stage.session.network is not None and stage.session.network.loss == 0.02
        stage.do("voxrtc.network", network={"loss": 7})
        stage.do("voxrtc.network", network={"rtt_ms": "slow"})
    assert [error["code"] for error in stage.errors] == ["invalid_type", "invalid_type"]
    assert stage.session.network.rtt_ms == 20.5


async def test_a_pong_tells_our_clock() -> None:
    async with Stage() as stage:
        stage.do("voxrtc.ping", id="a", t=5.0)
        stage.do("voxrtc.ping", id="b", t=6.0)
        first, second = stage.all("voxrtc.pong")
    assert (first["id"], first["t"]) == ("a", 5.0)
    assert 0 < first["server_time"] <= second["server_time"]
