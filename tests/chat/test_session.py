"""The conversation: events in their order, mistakes, Stop, and an engine that dies."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import pytest

from tests.chat.stage import LONG, Stage, until
from tests.fake_engine import TONE_MODEL
from voxrtc.chat import events
from voxrtc.messages.engine import Generate
from voxrtc.messages.model import Progress


async def test_a_sentence_from_item_to_the_last_sample() -> None:
    async with Stage() as stage:
        stage.say("one two three")
        await stage.event("voxrtc.playout")
    told = [type for type in stage.types if not type.startswith(("output_audio_buffer", "voxrtc"))]
    assert told == [
        "session.created",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    sound = [type for type in stage.types if type.startswith(("output_audio_buffer", "voxrtc"))]
    heard = ["voxrtc.heard"] * sound.count("voxrtc.heard")
    assert sound == [
        "output_audio_buffer.started",
        "voxrtc.timing",
        *heard[1:],
        "output_audio_buffer.stopped",
        "voxrtc.heard",
        "voxrtc.playout",
    ]
    assert stage.all("voxrtc.playout")[0]["played_ms"] == pytest.approx(300, abs=1)


async def test_the_events_belong_together() -> None:
    async with Stage() as stage:
        stage.item("one two")
        stage.do("response.create", response={"metadata": {"turn": "1"}})
        await stage.event("output_audio_buffer.stopped")
    created, done = stage.all("response.created")[0]["response"], stage.all("response.done")[0]["response"]
    assert created["status"] == "in_progress"
    assert (done["id"], done["status"], done["metadata"]) == (created["id"], "completed", {"turn": "1"})
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "one two"}]
    assert {event.get("response_id", created["id"]) for event in stage.events} == {created["id"]}
    assert stage.all("conversation.item.added")[1]["previous_item_id"] == stage.all("conversation.item.added")[0]["item"]["id"]
    assert len({event["event_id"] for event in stage.events}) == len(stage.events)
    (request,) = stage.generated()
    assert (request.stream, request.text, request.model, request.voice) == (created["id"], "one two", "tone", "default")


async def test_the_stages_of_the_first_sound_add_up() -> None:
    async with Stage() as stage:
        stage.say("one")
        timing = await stage.event("voxrtc.timing")
    stages = [timing[name] for name in ("token", "clause", "queue", "prompt", "first_frame", "first_chunk", "track")]
    assert sum(stages) == pytest.approx(timing["total"], abs=0.1)
    assert min(stages) >= 0


async def test_the_session_tells_and_takes_model_and_voice() -> None:
    other = msgspec.structs.replace(TONE_MODEL, name="other", voices=["low", "high"])
    async with Stage(models=[TONE_MODEL, other]) as stage:
        stage.do("session.update", session={"type": "realtime", "model": "other"})
        stage.do("session.update", session={"audio": {"output": {"voice": "high"}}})
        stage.do("session.update", session={"model": "tone"})
        settings = [event["session"] for event in stage.events]
        assert [(each["model"], each["audio"]["output"]["voice"]) for each in settings] == [
            ("tone", "default"),
            ("other", "low"),
            ("other", "high"),
            ("tone", "default"),
        ]
        stage.do("session.update", event_id="e1", session={"model": "parrot"})
        stage.do("session.update", event_id="e2", session={"audio": {"output": {"voice": "alloy"}}})
    model, voice = stage.errors
    assert (model["code"], model["event_id"], model["param"]) == ("model_not_found", "e1", "session.model")
    assert "tone, other" in model["message"]
    assert (voice["code"], voice["event_id"]) == ("voice_not_found", "e2")
    assert "default" in voice["message"]


async def test_a_model_may_come_and_go_during_a_call() -> None:
    other = msgspec.structs.replace(TONE_MODEL, name="other")
    async with Stage(models=[TONE_MODEL, other]) as stage:
        _, late = stage.tones
        late.on_reply(Progress(state="unloaded"))
        stage.do("session.update", session={"model": "other"})
        assert [error["code"] for error in stage.errors] == ["model_not_found"]
        late.find()
        stage.do("session.update", session={"model": "other"})
        stage.say("one")
        await stage.event("response.done")
        assert any(isinstance(request, Generate) for request in late.requests) and not stage.generated()
        late.lose()  # its engine died: that is told of a response, and is no reason to forget the model
        stage.say("two")
        await stage.event("response.done", 2)
        late.on_reply(Progress(state="unloaded"))
        stage.say("three")
        assert [error["code"] for error in stage.errors] == ["model_not_found", "engine_lost", "model_not_found"]
        stage.do("session.update", session={"model": "tone"})
        stage.do("response.create")
        await stage.event("response.done", 3)
        assert [request.text for request in stage.generated()] == ["three"]


async def test_a_response_may_bring_its_own_text_and_voice() -> None:
    two = msgspec.structs.replace(TONE_MODEL, voices=["default", "low"])
    async with Stage(models=[two]) as stage:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "aside"}]}
        stage.do("response.create", response={"conversation": "none", "input": [item], "audio": {"output": {"voice": "low"}}})
        await stage.event("response.done")
    (request,) = stage.generated()
    assert (request.text, request.voice) == ("aside", "low")


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (lambda stage: stage.session.received("{"), "invalid_json"),
        (lambda stage: stage.session.received(b"\xff\x00"), "invalid_json"),
        (lambda stage: stage.session.received("x" * (events.MAX_EVENT + 1)), "event_too_large"),
        (lambda stage: stage.do("input_audio_buffer.append", event_id="e", audio="?"), "invalid_value"),
        (lambda stage: stage.do("session.update", event_id="e", session=3), "invalid_type"),
        (lambda stage: stage.do("response.create", event_id="e"), "nothing_to_say"),
        (lambda stage: stage.do("response.create", event_id="e", response={"input": []}), "nothing_to_say"),
        (
            lambda stage: stage.do("response.create", event_id="e", response={"output_modalities": ["text", "audio"]}),
            "invalid_value",
        ),
        (lambda stage: stage.do("response.cancel", event_id="e"), "response_cancel_not_active"),
        (lambda stage: stage.item("x", event_id="e", previous_item_id="nowhere"), "item_not_found"),
        (lambda stage: stage.do("conversation.item.create", event_id="e", item={"type": "reasoning"}), "invalid_value"),
        (
            lambda stage: stage.do("conversation.item.create", event_id="e", item={"type": "function_call"}),
            "missing_required_parameter",
        ),
        (
            lambda stage: stage.do(
                "conversation.item.create", event_id="e", item={"type": "message", "role": "user", "content": []}
            ),
            "invalid_value",
        ),
    ],
)
async def test_mistakes_are_told_and_the_session_lives_on(send: object, code: str) -> None:
    async with Stage() as stage:
        send(stage)  # type: ignore[operator]
        (error,) = stage.errors
        assert error["code"] == code
        assert error["type"] == "invalid_request_error"
        assert error["event_id"] in ("e", None)
        stage.say("still here")
        await stage.event("output_audio_buffer.stopped")


async def test_one_item_has_one_answer() -> None:
    async with Stage() as stage:
        stage.say("one")
        await stage.event("response.done")
        stage.do("response.create")
        assert stage.errors[0]["code"] == "nothing_to_say"


async def test_an_assistant_item_is_kept_and_not_spoken() -> None:
    async with Stage() as stage:
        content = [{"type": "output_text", "text": "Earlier I said this."}]
        stage.do("conversation.item.create", item={"type": "message", "role": "assistant", "content": content})
        assert stage.all("conversation.item.done")[0]["item"]["content"] == content
        stage.do("response.create")
        assert stage.errors[0]["code"] == "nothing_to_say"


async def test_items_have_their_place() -> None:
    async with Stage() as stage:
        stage.item("first")
        first = stage.all("conversation.item.added")[0]["item"]["id"]
        stage.item("second")
        stage.item("between", previous_item_id=first)
        stage.item("before", previous_item_id="root")
        second = stage.all("conversation.item.added")[1]
        assert second["previous_item_id"] == first
        assert [event["previous_item_id"] for event in stage.all("conversation.item.added")] == [None, first, first, None]
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "twice"}]}
        stage.do("conversation.item.create", item={**message, "id": first})
        assert stage.errors[0]["code"] == "item_exists"


async def test_a_second_response_at_a_time_is_refused() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        stage.item("again")
        stage.do("response.create", event_id="e")
        assert stage.errors[0]["code"] == "conversation_already_has_active_response"
        await stage.event("output_audio_buffer.stopped")
        stage.do("response.create")  # the item still waits for its answer
        await stage.event("output_audio_buffer.stopped", 2)


async def test_stop_reaches_the_engine_and_the_track_at_once() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.do("response.cancel")
        stage.do("output_audio_buffer.clear")
        assert stage.all("response.done")[0]["response"]["status"] == "cancelled"
        assert stage.all("response.done")[0]["response"]["status_details"]["reason"] == "client_cancelled"
        assert stage.all("output_audio_buffer.cleared")[0]["response_id"] == stage.generated()[0].stream
        assert stage.track.clock is None
        await until(stage.cancelled)
        assert stage.cancelled() == [stage.generated()[0].stream]
        await asyncio.sleep(0.02)
    assert "output_audio_buffer.stopped" not in stage.types
    assert stage.errors == []


async def test_the_next_sentence_may_follow_in_the_same_breath() -> None:
    """Keeps talking when interrupted (fastrtc 341, 417, 240), or silent afterwards (99): neither."""
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.do("response.cancel")
        stage.do("output_audio_buffer.clear")
        stage.say("one two")
        await stage.event("output_audio_buffer.stopped")
    assert stage.errors == []
    first, second = (request.stream for request in stage.generated())
    assert [event["response_id"] for event in stage.all("output_audio_buffer.started")] == [first, second]
    assert [event["response_id"] for event in stage.all("output_audio_buffer.stopped")] == [second]
    assert [event["response"]["status"] for event in stage.all("response.done")] == ["cancelled", "completed"]


async def test_clear_alone_ends_the_response_too() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.do("output_audio_buffer.clear")
        assert stage.all("response.done")[0]["response"]["status"] == "cancelled"
        await until(stage.cancelled)
        stage.do("output_audio_buffer.clear")  # nothing is left to clear: nothing is told
        assert len(stage.all("output_audio_buffer.cleared")) == 1


async def test_cancel_alone_lets_the_sound_that_is_made_play_out() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.do("response.cancel")
        await stage.event("output_audio_buffer.stopped")
        assert 0 < stage.all("voxrtc.playout")[0]["played_ms"] < 9_000


async def test_cancel_before_the_first_sound() -> None:
    async with Stage(speed=0.5) as stage:
        stage.say("one two")
        await until(stage.generated)
        stage.do("response.cancel", response_id=stage.generated()[0].stream)
        await until(stage.cancelled)
        assert stage.all("response.done")[0]["response"]["status"] == "cancelled"
        assert "output_audio_buffer.started" not in stage.types


async def test_a_failing_stream_is_told_and_fails_alone() -> None:
    async with Stage() as stage:
        stage.say("fail")
        done = await stage.event("response.done")
        assert done["response"]["status"] == "failed"
        assert done["response"]["status_details"]["error"]["code"] == "engine_error"
        assert [(error["code"], error["type"]) for error in stage.errors] == [("engine_error", "server_error")]
        stage.say("fine again")
        await stage.event("output_audio_buffer.stopped")


async def test_a_lost_engine_is_told_and_the_next_response_works_when_it_is_back() -> None:
    async with Stage(speed=50) as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.tone.lose()
        done = await stage.event("response.done")
        assert done["response"]["status"] == "failed"
        assert stage.errors[0]["code"] == "engine_lost"
        await stage.event("output_audio_buffer.stopped")  # what was made is played, and ends
        stage.say("too early")
        await stage.event("response.done", 2)
        assert stage.errors[1]["code"] == "engine_lost"
        stage.tone.lost = False
        stage.say("back again")
        await stage.event("output_audio_buffer.stopped", 2)


async def test_the_engine_hears_how_far_its_listener_is() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.stopped")
    readings = stage.playouts()
    assert {reading.stream for reading in readings} == {stage.generated()[0].stream}
    assert all(a.played <= b.played and a.at <= b.at for a, b in itertools.pairwise(readings))
    assert readings[0].running
    assert len(readings) < 100  # a few a second, not every frame


async def test_hanging_up_cancels() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.session.closed()
        await until(stage.cancelled)


async def test_ping_is_answered_as_it_was_asked() -> None:
    async with Stage() as stage:
        stage.do("voxrtc.ping", id="a1", t=12.5)
        stage.do("voxrtc.pong")
        pong = stage.all("voxrtc.pong")[0]
        assert (pong["id"], pong["t"]) == ("a1", 12.5)
        assert stage.errors == []
