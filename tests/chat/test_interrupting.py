"""Somebody speaks while we do: silence at once, and then either their turn or ours again."""

from __future__ import annotations

import pytest

from tests.chat.stage import LONG, Stage, until
from voxrtc.chat.backchannel import is_backchannel
from voxrtc.chat.input_buffer import VERDICT
from voxrtc.chat.turns import LASTING

SHORT = 0.384  # seconds
MADE = 10.0  # seconds that `LONG` lasts


async def speaking(stage: Stage) -> str:
    """The id of a response that is being heard."""
    stage.say(LONG)
    started = await stage.event("output_audio_buffer.started")
    return str(started["response_id"])


def still_ours(stage: Stage) -> None:
    """Nobody was told of a turn, and the response goes on."""
    assert not stage.cancelled()
    assert "input_audio_buffer.speech_started" not in stage.types
    assert stage.hearing.forgotten == list(stage.hearing.sound)


async def test_at_the_onset_we_are_silent_and_nothing_is_lost_yet() -> None:
    async with Stage() as stage:
        id = await speaking(stage)
        stage.hear(0.096)
        assert (await stage.event("voxrtc.held"))["response_id"] == id
        clock = stage.track.clock
        assert clock is not None and not clock.running
        await until(lambda: stage.playouts() and not stage.playouts()[-1].running)  # the engine does not hurry for us
        still_ours_so_far = stage.cancelled(), stage.all("response.done")
        assert still_ours_so_far == ([], [])


@pytest.mark.parametrize("words", ["Mm-hmm.", "", "Okay, right.", "I see."])
async def test_a_backchannel_lets_us_go_on_where_we_stopped(words: str) -> None:
    async with Stage() as stage:
        id = await speaking(stage)
        stage.hearing.answer = words
        stage.hear(SHORT)
        assert stage.track.clock is not None and not stage.track.clock.running
        stage.hear(0.192, speech=False)
        assert (await stage.event("voxrtc.resumed"))["response_id"] == id
        still_ours(stage)
        playout = await stage.event("voxrtc.playout")
    assert playout["played_ms"] == pytest.approx(1000 * MADE, abs=1)  # all of it, once
    assert playout["underruns"] == 0
    assert stage.all("response.done")[0]["response"]["status"] == "completed"
    assert "conversation.item.input_audio_transcription.completed" not in stage.types


async def test_one_word_that_means_something_interrupts() -> None:
    """As soon as it is known, in the events that stock clients expect."""
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = "Stop."
        stage.hear(SHORT)
        stage.hear(0.192, speech=False)
        assert stage.track.clock is None
        stage.hear(0.512, speech=False)
        await stage.event("conversation.item.input_audio_transcription.completed")
    told = [
        type
        for type in stage.types
        if type.startswith(("input_audio_buffer", "output_audio_buffer.c", "response.done", "voxrtc.held"))
    ]
    assert told == [
        "voxrtc.held",
        "input_audio_buffer.speech_started",
        "response.done",
        "output_audio_buffer.cleared",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
    ]
    assert stage.all("response.done")[0]["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert stage.all("input_audio_buffer.speech_started")[0]["audio_start_ms"] == 0  # where it began, not where it counted


async def test_long_speech_interrupts_before_its_words_are_known() -> None:
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = None
        stage.hear(LASTING - 0.032)
        assert stage.track.clock is not None
        stage.hear(0.064)
        assert stage.track.clock is None
        await until(stage.cancelled)


async def test_who_goes_on_after_a_backchannel_interrupts() -> None:
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = "Yeah."
        stage.hear(SHORT)
        stage.hear(0.096, speech=False)
        stage.hear(LASTING - SHORT)
        assert stage.track.clock is None
        assert "voxrtc.resumed" not in stage.types


async def test_words_of_an_earlier_pause_decide_nothing() -> None:
    """The look came back when more had been said: "Okay" was not all of it."""
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = None
        stage.hear(0.256)
        stage.hear(0.16, speech=False)
        (utterance, heard), *_ = stage.hearing.looks
        stage.hear(0.096)
        stage.hearing.readers[utterance].hypothesis("Okay.", heard, 0.9)
        assert stage.track.clock is not None and "voxrtc.resumed" not in stage.types
        stage.hear(0.16, speech=False)
        stage.hearing.tell(utterance, "Okay, stop.", 0.9)
        assert stage.track.clock is None


async def test_without_words_a_short_sound_is_none_in_the_end() -> None:
    """Speech to text is away, or too busy: we do not stay silent for ever."""
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = None
        stage.hear(SHORT)
        stage.hear(VERDICT - 0.064, speech=False)
        assert "voxrtc.resumed" not in stage.types
        stage.hear(0.128, speech=False)
        await stage.event("voxrtc.resumed")
        still_ours(stage)
        assert (await stage.event("voxrtc.playout"))["played_ms"] == pytest.approx(1000 * MADE, abs=1)


async def test_without_words_what_was_longer_interrupts_in_the_end() -> None:
    """ "Stop, please.", and speech to text comes too late: better late than ignored."""
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = None
        stage.hear(0.704)
        stage.hear(VERDICT + 0.064, speech=False)
        await stage.event("input_audio_buffer.committed")
        assert stage.track.clock is None and "voxrtc.resumed" not in stage.types


async def test_a_client_that_plays_by_itself_is_told_at_once() -> None:
    """Over a WebSocket we cannot be silent for it."""
    async with Stage() as stage:
        stage.paced = False
        stage.say(LONG)
        await until(lambda: stage.track.clock)
        stage.hear(0.128)
        assert stage.all("input_audio_buffer.speech_started")
    assert "voxrtc.held" not in stage.types


@pytest.mark.parametrize(("words", "answer"), [("Yes.", True), ("", False)])
async def test_yes_to_our_last_words_is_an_answer(words: str, answer: bool) -> None:
    """Said a little early. A cough is none."""
    async with Stage() as stage:
        stage.say(" ".join(["word"] * 8))  # 0.8 s
        await stage.event("output_audio_buffer.started")
        await stage.event("response.done")
        stage.hearing.answer = words
        stage.hear(SHORT)
        stage.hear(0.608, speech=False)
        told = await stage.event("conversation.item.input_audio_transcription.completed" if answer else "voxrtc.resumed")
    assert told.get("transcript") == (words or None)


async def test_a_backchannel_to_nobody_is_a_turn() -> None:
    """ "Yes." may be an answer."""
    async with Stage() as stage:
        stage.hearing.answer = "Yes."
        stage.hear(SHORT)
        stage.hear(0.608, speech=False)
    assert stage.all("input_audio_buffer.speech_started")
    assert stage.all("conversation.item.input_audio_transcription.completed")[0]["transcript"] == "Yes."
    assert "voxrtc.held" not in stage.types


async def test_a_response_that_is_not_heard_yet_waits_too() -> None:
    """Speech goes on after what we took for its end: what was being made for it does not talk into that."""
    async with Stage() as stage:
        stage.say(LONG)
        stage.hear(0.096)
        await stage.event("voxrtc.held")
        await until(lambda: stage.track.clock)
        for _ in range(20):
            await stage.track.recv()
        assert "output_audio_buffer.started" not in stage.types
        stage.hear(LASTING)
        assert stage.track.clock is None
        done = await stage.event("response.done")
        assert done["response"]["status_details"]["reason"] == "turn_detected"


@pytest.mark.parametrize("stop", ["clear", "manual", "commit", "leave"])
async def test_a_held_response_is_never_forgotten(stop: str) -> None:
    """Whatever the client does meanwhile."""
    async with Stage() as stage:
        await speaking(stage)
        stage.hearing.answer = None
        stage.hear(SHORT)
        if stop == "clear":
            stage.do("input_audio_buffer.clear")
        elif stop == "manual":
            stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        elif stop == "commit":
            stage.do("input_audio_buffer.commit")
            assert stage.track.clock is None  # who says that it was a turn interrupts
            assert stage.all("input_audio_buffer.speech_started")
            return
        else:
            stage.session.closed()
        await stage.event("voxrtc.resumed")
        if stop != "leave":
            assert (await stage.event("voxrtc.playout"))["played_ms"] == pytest.approx(1000 * MADE, abs=1)


@pytest.mark.parametrize("text", ["", "Mm-hmm.", "Uh-huh", "Yeah, yeah.", "Okay, got it.", "Oh, I see.", "Of course!", "Mhm…"])
def test_backchannels(text: str) -> None:
    assert is_backchannel(text)


@pytest.mark.parametrize("text", ["Stop.", "No.", "Okay, but why?", "What?", "Yes, right, sure, okay, fine.", "You.", "Hello?"])
def test_words_that_want_the_floor(text: str) -> None:
    assert not is_backchannel(text)
