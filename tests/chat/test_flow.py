"""Text flows into a voice that takes it while it speaks: one stream of the engine, from the first words of a reply on."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.chat.stage import Stage, until
from tests.chat.test_listening import said
from tests.fake_chat import Answers
from tests.fake_engine import TONE_MODEL
from tests.waiting import PATIENCE
from voxrtc.chat.reply import Delta, ReplyCut, ReplyFailed, ToolCall, as_it_comes
from voxrtc.messages.engine import Extend, Generate

RUNNING = msgspec.structs.replace(TONE_MODEL, running=True)
CALL = ToolCall("call_1", "look", "{}")


def flowing(replier: Answers) -> Stage:
    stage = Stage(models=[RUNNING], replier=replier)
    stage.tone.aligned = True
    return stage


def texts(stage: Stage) -> dict[str, str]:
    """What each stream of the engine was to say."""
    said_: dict[str, str] = {}
    for request in stage.tone.requests:
        if isinstance(request, Generate):
            said_[request.stream] = request.text
        elif isinstance(request, Extend):
            said_[request.stream] += request.text
    return said_


async def collected(parts: list) -> list:  # type: ignore[type-arg]
    async def reply():  # type: ignore[no-untyped-def]
        for part in parts:
            if isinstance(part, Exception):
                raise part
            yield part

    found: list = []  # type: ignore[type-arg]
    try:
        async for part in as_it_comes(reply()):
            found.append(part)
    except (ReplyFailed, ReplyCut) as ended:
        found.append(type(ended))
    return found


@given(st.lists(st.text("ab \n.", max_size=4)))
def test_no_character_is_lost_but_blanks_around_it(deltas: list[str]) -> None:
    found = asyncio.run(collected(deltas))
    if text := "".join(deltas).strip():
        assert "".join(delta.text for delta in found) == text
        assert all(delta.text.strip() for delta in found)
    else:
        assert found == [ReplyFailed]


async def test_words_around_a_call_are_apart() -> None:
    assert await collected([" Let ", "me see. ", CALL, "\nThere"]) == [Delta("Let"), Delta(" me see."), CALL, Delta("There")]
    assert await collected([CALL]) == [CALL]
    assert await collected([" I ", ReplyCut()]) == [Delta("I"), ReplyCut]


async def test_a_reply_is_one_stream_and_begins_with_its_first_words() -> None:
    gate = asyncio.Event()
    async with flowing(Answers("One moment please, I think. It is Tuesday.", gate=gate)) as stage:
        said(stage)
        await stage.event("output_audio_buffer.started")
        assert not any(isinstance(request, Extend) and request.final for request in stage.tone.requests)
        gate.set()
        await stage.event("output_audio_buffer.stopped")
        assert list(texts(stage).values()) == ["One moment please, I think. It is Tuesday."]
        deltas = "".join(event["delta"] for event in stage.all("response.output_audio_transcript.delta"))
        transcript = stage.all("response.output_audio_transcript.done")[0]["transcript"]
        assert deltas == transcript == "One moment please, I think. It is Tuesday."
        assert stage.all("voxrtc.heard")[-1]["characters"] == len(transcript)


async def test_a_reply_that_is_interrupted_is_remembered_as_far_as_it_was_heard() -> None:
    answers = Answers(" ".join(f"word{i}" for i in range(60)) + ".", "Yes.")
    async with flowing(answers) as stage:
        said(stage)
        await stage.event("output_audio_buffer.started")
        await until(lambda: stage.track.clock and stage.track.clock.played > 2)
        said(stage)
        await stage.event("output_audio_buffer.stopped")
        played = stage.all("voxrtc.playout")[0]["played_ms"] / 1000
        assert stage.all("response.done")[0]["response"]["status"] == "cancelled"
    heard = answers.asked[1][2].content
    assert len(heard.split()) == round(played / 0.1 + 1e-6)


async def test_a_reply_that_breaks_off_is_spoken_as_far_as_it_came() -> None:
    class Broken(Answers):
        async def reply(self, ask):  # type: ignore[no-untyped-def]
            yield "All I"
            yield " know is"
            raise ReplyFailed("It went away.")

    async with flowing(Broken()) as stage:
        said(stage)
        done = await stage.event("response.done")
        await stage.event("output_audio_buffer.stopped")
        assert list(texts(stage).values()) == ["All I know is"]
        assert done["response"]["status"] == "failed" and [error["message"] for error in stage.errors] == ["It went away."]


async def test_a_voice_that_is_told_how_to_speak_gets_whole_clauses() -> None:
    """Until the session says no more of it; a voice that takes no such words reads on as ever."""
    for instructed in (True, False):
        replier = Answers("One two three four. Five six.", "Seven eight nine.")
        model = msgspec.structs.replace(RUNNING, instructed=instructed)
        async with Stage(models=[model], replier=replier) as stage:
            stage.do("session.update", session={"type": "realtime", "voxrtc": {"instructions": " Whisper. "}})
            stage.do("session.update", session={"type": "realtime"})
            assert (await stage.event("session.updated", 2))["session"]["voxrtc"]["instructions"] == "Whisper."
            stage.say("And?")
            await stage.event("response.done")
            asked = stage.generated()
            assert asked and all(request.instructions == "Whisper." and request.final is instructed for request in asked)
            stage.do("session.update", session={"type": "realtime", "voxrtc": {"instructions": ""}})
            stage.say("And?")
            await stage.event("response.done", 2)
            last = stage.generated()[len(asked) :]
            assert last and all(not request.instructions and not request.final for request in last)


async def test_given_words_are_all_there_from_the_start() -> None:
    async with flowing(Answers("Never asked.")) as stage:
        content = [{"type": "output_text", "text": "Just this."}]
        stage.do("response.create", response={"input": [{"type": "message", "role": "assistant", "content": content}]})
        await stage.event("output_audio_buffer.stopped")
        (request,) = stage.generated()
        assert request.final and request.text == "Just this."


async def test_what_the_engine_refuses_ends_the_reply() -> None:
    closed = asyncio.Event()

    class Endless(Answers):
        async def reply(self, ask):  # type: ignore[no-untyped-def]
            try:
                yield "fail"
                await asyncio.Event().wait()
            finally:
                closed.set()

    async with flowing(Endless()) as stage:
        said(stage)
        done = await stage.event("response.done")
        assert done["response"]["status_details"]["error"]["code"] == "engine_error"
        await asyncio.wait_for(closed.wait(), PATIENCE)
