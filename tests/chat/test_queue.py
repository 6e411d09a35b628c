"""Waiting for the engine, and who goes ahead there."""

from __future__ import annotations

import pytest

from tests.chat.stage import LONG, Stage, until
from voxrtc.messages.engine import Failed, Generate


async def test_waiting_in_the_queue_is_told() -> None:
    async with Stage() as stage:
        stage.tone.places = 2
        stage.say("one")
        await stage.event("voxrtc.playout")
    told = [(event["response_id"], event["position"], event["wait_ms"]) for event in stage.all("voxrtc.queue")]
    assert told == [(stage.generated()[0].stream, 2, 4000), (stage.generated()[0].stream, 1, 2000)]
    assert stage.types.index("response.created") < stage.types.index("voxrtc.queue")
    assert "voxrtc.queue" not in stage.types[stage.types.index("output_audio_buffer.started") :]


@pytest.mark.parametrize(
    "stop", [["response.cancel"], ["output_audio_buffer.clear"], ["response.cancel", "output_audio_buffer.clear"]]
)
async def test_the_reply_to_an_interruption_has_priority(stop: list[str]) -> None:
    """That one alone: what follows it in peace waits like all others."""
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        for type in stop:
            stage.do(type)
        stage.say("one")
        await stage.event("response.done", 2)
        await until(lambda: stage.track.clock is None)
        stage.say("two")
        await stage.event("response.done", 3)
    assert [request.priority for request in stage.generated()] == [False, True, False]


async def test_a_reply_while_sound_still_plays_has_priority() -> None:
    stage = Stage()  # nobody takes its packets
    stage.say("one")
    await stage.event("response.done")
    assert stage.track.clock
    stage.say("two")
    await until(lambda: len(stage.generated()) == 2)
    stage.session.closed()
    stage.track.stop()
    assert [request.priority for request in stage.generated()] == [False, True]


async def test_giving_up_in_the_queue_is_no_interruption() -> None:
    """Or Stop and Speak would be a way past all others. But who broke in, and then changes the words, has broken in still."""
    async with Stage(speed=1.0) as stage:
        stage.tone.places = 9
        for _ in range(2):
            stage.say("one")
            await stage.event("voxrtc.queue")
            stage.do("response.cancel")
            stage.do("output_audio_buffer.clear")
        stage.tone.places = 0
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.tone.places = 9
        for _ in range(2):
            stage.do("response.cancel")
            stage.do("output_audio_buffer.clear")
            stage.say("one")
            await until(lambda: stage.all("voxrtc.queue")[-1]["response_id"] == stage.generated()[-1].stream)
    assert [request.priority for request in stage.generated()] == [False, False, False, True, True]


async def test_a_full_queue_is_told_with_its_time() -> None:
    message = "The queue is full (64 waiting). Please try again in about 20 seconds."

    async with Stage() as stage:

        async def refuse(request: Generate) -> None:
            stage.tone.on_reply(Failed(stream=request.stream, code="busy", message=message, retry_after=19.5))

        stage.tone._speak = refuse  # type: ignore[method-assign]
        stage.say("one")
        await stage.event("response.done")
        assert [(error["code"], error["message"]) for error in stage.errors] == [("busy", message)]
