"""The person speaks: turns, their items and words, and what they interrupt."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.chat.stage import LONG, LOUD, Stage, until
from voxrtc.chat.spoken import EVENT

TURN = 1.024  # seconds of speech, whole blocks


def said(stage: Stage, seconds: float = TURN) -> None:
    """A turn, from silence to silence."""
    stage.hear(0.512, speech=False)
    stage.hear(seconds)
    stage.hear(0.608, speech=False)


def manual(stage: Stage) -> None:
    """Push to talk."""
    stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})


async def test_a_turn_from_onset_to_transcript() -> None:
    async with Stage() as stage:
        said(stage)
    heard = [event for event in stage.events if event["type"] != "session.created"]
    assert [event["type"] for event in heard] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        f"{EVENT}.completed",
    ]
    started, stopped, committed, added, _, completed = heard
    assert started["audio_start_ms"] == pytest.approx(512 - 300, abs=1)
    assert stopped["audio_end_ms"] == pytest.approx(512 + 1024 + 500, abs=33)
    item = added["item"]
    assert {event["item_id"] for event in (started, stopped, committed, completed)} == {item["id"]}
    assert (item["role"], item["content"]) == ("user", [{"type": "input_audio", "transcript": None}])
    assert completed["transcript"] == "hello there"


async def test_the_transcriber_gets_the_turn_with_what_was_before_it() -> None:
    async with Stage() as stage:
        said(stage)
        (sound,) = stage.hearing.sound.values()
    samples = np.frombuffer(sound, np.int16)
    loud = np.flatnonzero(samples == LOUD)
    assert len(loud) == round(TURN * 16_000)
    assert loud[0] / 16_000 == pytest.approx(0.3, abs=0.032)
    assert len(samples) / 16_000 == pytest.approx(0.3 + TURN + 0.5, abs=0.065)


async def test_turns_follow_each_other() -> None:
    async with Stage() as stage:
        said(stage)
        said(stage)
    first, second = stage.all("input_audio_buffer.committed")
    assert second["previous_item_id"] == first["item_id"]
    assert len(stage.all(f"{EVENT}.completed")) == 2


async def test_words_are_told_while_they_are_spoken() -> None:
    """Those that two looks in a row agree on; what is told is never taken back."""
    async with Stage() as stage:
        stage.hearing.answer = None
        stage.hear(TURN)
        (reader,) = stage.hearing.readers.values()
        for hypothesis in ("the", "the boat", "the boat grifted", "a boat drifted slowly", "the boat drifted slowly by"):
            reader.hypothesis(hypothesis, 0, None)
        assert [event["delta"] for event in stage.all(f"{EVENT}.delta")] == ["the", " boat"]
        reader.hypothesis("the boat drifted slowly by", 0, None)
        assert "".join(event["delta"] for event in stage.all(f"{EVENT}.delta")) == "the boat drifted slowly by"


async def test_speech_interrupts_sound_and_what_is_being_made() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        stage.hear(TURN)
        assert stage.track.clock is None
        await stage.event("output_audio_buffer.cleared")
        done = await stage.event("response.done")
        await until(stage.cancelled)
        order = [type for type in stage.types if type.startswith(("input_", "response.done", "output_audio_buffer.c"))]
        assert order[0] == "input_audio_buffer.speech_started"
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        stage.say("one")
        await stage.event("response.done", 2)
    assert [request.priority for request in stage.generated()] == [False, True]


async def test_a_click_interrupts_nothing() -> None:
    async with Stage() as stage:
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        for _ in range(5):
            stage.hear(0.064)
            stage.hear(0.064, speech=False)
        assert stage.track.clock is not None
        assert not stage.cancelled()


async def test_who_does_not_want_to_interrupt_does_not() -> None:
    async with Stage() as stage:
        detection = {"type": "server_vad", "interrupt_response": False, "silence_duration_ms": 200}
        stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
        stage.say(LONG)
        await stage.event("output_audio_buffer.started")
        said(stage)
        assert stage.track.clock is not None
    assert len(stage.all("input_audio_buffer.committed")) == 1
    updated = stage.all("session.updated")[0]["session"]["audio"]["input"]["turn_detection"]
    assert updated == detection | {"threshold": 0.5, "prefix_padding_ms": 300, "create_response": False}


async def test_push_to_talk() -> None:
    """Nothing is detected; what is heard between clear and commit is the turn."""
    async with Stage() as stage:
        manual(stage)
        stage.hear(1.28)
        stage.do("input_audio_buffer.clear")
        stage.hear(0.64)
        stage.do("input_audio_buffer.commit")
        (sound,) = stage.hearing.sound.values()
        stage.do("input_audio_buffer.commit")
    assert len(sound) == 2 * round(0.64 * 16_000)
    assert "input_audio_buffer.speech_started" not in stage.types
    assert [event["transcript"] for event in stage.all(f"{EVENT}.completed")] == ["hello there"]
    assert stage.types.index("input_audio_buffer.cleared") < stage.types.index("input_audio_buffer.committed")
    assert [error["code"] for error in stage.errors] == ["input_audio_buffer_commit_empty"]


async def test_push_to_talk_keeps_a_minute_at_most() -> None:
    async with Stage() as stage:
        manual(stage)
        stage.hear(90)
        stage.do("input_audio_buffer.commit")
        (sound,) = stage.hearing.sound.values()
    assert len(sound) / 32_000 == pytest.approx(60, abs=0.1)


async def test_a_client_may_end_a_turn_that_we_detected() -> None:
    async with Stage() as stage:
        stage.hear(0.512)
        stage.do("input_audio_buffer.commit")
        stage.hear(0.608, speech=False)
        stage.do("input_audio_buffer.commit")
    assert len(stage.all("input_audio_buffer.committed")) == 1
    assert "input_audio_buffer.speech_stopped" not in stage.types
    assert [error["code"] for error in stage.errors] == ["input_audio_buffer_commit_empty"]


async def test_a_cleared_turn_is_forgotten() -> None:
    async with Stage() as stage:
        stage.hear(0.512)
        stage.do("input_audio_buffer.clear")
        stage.hear(0.608, speech=False)
    assert stage.hearing.forgotten == list(stage.hearing.sound)
    assert "input_audio_buffer.committed" not in stage.types


async def test_a_turn_is_forgotten_when_its_speaker_leaves() -> None:
    async with Stage() as stage:
        stage.hear(0.512)
        stage.session.closed()
        assert stage.hearing.forgotten == list(stage.hearing.sound)


async def test_without_speech_to_text_a_turn_fails_after_it_was_committed() -> None:
    async with Stage() as stage:
        stage.hearing.lost = True
        said(stage)
    failed = stage.all(f"{EVENT}.failed")
    assert [event["error"]["code"] for event in failed] == ["transcriber_lost"]
    assert stage.types.index("conversation.item.done") < stage.types.index(f"{EVENT}.failed")
    assert failed[0]["item_id"] == stage.all("input_audio_buffer.committed")[0]["item_id"]


@pytest.mark.parametrize(
    ("detection", "param"),
    [
        ({"type": "psychic"}, "session.audio.input.turn_detection"),
        ({"type": "semantic_vad", "eagerness": "frantic"}, "session.audio.input.turn_detection"),
        ({"type": "server_vad", "threshold": 7}, "session.audio.input.turn_detection.threshold"),
        ({"type": "server_vad", "silence_duration_ms": -1}, "session.audio.input.turn_detection.silence_duration_ms"),
        ("server_vad", "session.audio.input.turn_detection"),
    ],
)
async def test_a_setting_that_cannot_be_is_refused(detection: object, param: str) -> None:
    async with Stage() as stage:
        stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
        await asyncio.sleep(0)
        said(stage)
    assert [error["param"].startswith(param) for error in stage.errors] == [True]
    assert len(stage.all("input_audio_buffer.committed")) == 1  # the old settings hold


def detect(stage: Stage, **detection: object) -> None:
    stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})


@pytest.mark.parametrize("eagerness", [{}, {"eagerness": "high"}])
async def test_semantic_turn_detection_is_taken_and_what_holds_is_told(eagerness: dict[str, str]) -> None:
    """Stock clients ask for it unless told otherwise."""
    async with Stage() as stage:
        detect(stage, type="semantic_vad", **eagerness)
        await stage.event("session.updated")
    assert not stage.errors
    told = stage.all("session.updated")[-1]["session"]["audio"]["input"]["turn_detection"]
    assert (
        told
        == {
            "type": "semantic_vad",
            "eagerness": "auto",
            "create_response": False,
            "interrupt_response": True,
        }
        | eagerness
    )


async def test_a_finished_sentence_ends_the_turn_soon_and_another_one_late() -> None:
    ends = {}
    for over in (1.0, 0.0):
        async with Stage() as stage:
            stage.hearing.over = over
            detect(stage, type="semantic_vad", eagerness="auto")
            stage.hear(TURN)
            stage.hear(2.048, speech=False)
            (stopped,) = stage.all("input_audio_buffer.speech_stopped")
            ends[over] = stopped["audio_end_ms"] / 1000 - TURN
    assert ends[1.0] == pytest.approx(0.3, abs=0.033)
    assert ends[0.0] == pytest.approx(1.5, abs=0.033)


async def test_an_unfinished_sentence_goes_on_after_a_pause() -> None:
    """Both parts are one turn, which ends soon after the second."""
    async with Stage() as stage:
        detect(stage, type="semantic_vad")
        stage.hearing.over = 0.0
        stage.hear(TURN)
        stage.hear(0.896, speech=False)
        stage.hearing.over = 1.0
        stage.hear(TURN)
        stage.hear(0.608, speech=False)
    (stopped,) = stage.all("input_audio_buffer.speech_stopped")
    assert stopped["audio_end_ms"] / 1000 == pytest.approx(2 * TURN + 0.896 + 0.3, abs=0.033)
    assert len(stage.hearing.sound) == 1


async def test_whose_words_come_late_is_not_waited_for_longer_than_usual() -> None:
    async with Stage() as stage:
        detect(stage, type="semantic_vad")
        stage.hearing.answer = None
        stage.hear(TURN)
        stage.hear(1.024, speech=False)
    (stopped,) = stage.all("input_audio_buffer.speech_stopped")
    assert stopped["audio_end_ms"] / 1000 - TURN == pytest.approx(0.8, abs=0.033)
