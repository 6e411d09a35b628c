"""The conversation's items as a client makes, sees and cuts them; sound that it sends in events; tools and text."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat.stage import LOUD, Stage, until
from tests.chat.test_listening import manual, said
from tests.fake_chat import Answers
from voxrtc.chat import items
from voxrtc.chat.events import Content, EventError, Item
from voxrtc.chat.formats import decode, encode
from voxrtc.chat.reply import Said, Tool, ToolCall, ToolResult
from voxrtc.chat.session_settings import Format
from voxrtc.chat.spoken import EVENT
from voxrtc.chat.turns import LASTING

LONG = "One two three. " * 20  # 6 s of tone
WEATHER = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": {"type": "object"}}
CALL = ToolCall("call_1", "weather", '{"city": "Oslo"}')


def pcm(seconds: float, rate: int = 24_000) -> str:
    return base64.b64encode(np.full(round(seconds * rate), LOUD, np.int16).tobytes()).decode()


async def item_of(stage: Stage, id: str) -> dict[str, Any]:
    stage.do("conversation.item.retrieve", item_id=id)
    item = (await stage.event("conversation.item.retrieved", len(stage.all("conversation.item.retrieved"))))["item"]
    assert isinstance(item, dict)
    return item


# --- retrieve, delete, truncate ---


async def test_items_are_given_back_as_they_are() -> None:
    async with Stage(replier=Answers("Here I am.")) as stage:
        said(stage)
        await stage.event("output_audio_buffer.stopped")
        heard, spoken = (event["item"]["id"] for event in stage.all("conversation.item.added"))
        assert await item_of(stage, heard) == {
            "id": heard,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": "hello there"}],
        }
        assert (await item_of(stage, spoken))["content"] == [{"type": "output_audio", "transcript": "Here I am."}]


async def test_a_deleted_item_was_never_said() -> None:
    answers = Answers("Yes.")
    async with Stage(replier=answers) as stage:
        stage.item("forget this")
        stage.item("keep this")
        first = stage.all("conversation.item.added")[0]["item"]["id"]
        stage.do("conversation.item.delete", item_id=first)
        assert stage.all("conversation.item.deleted")[0]["item_id"] == first
        stage.do("conversation.item.delete", item_id=first, event_id="again")
        stage.do("conversation.item.retrieve", item_id=first)
        stage.do("response.create")
        await stage.event("response.done")
    assert [(error["code"], error["param"]) for error in stage.errors] == [("item_not_found", "item_id")] * 2
    assert answers.asked[0][1:] == [Said("user", "keep this")]


async def test_an_interrupted_item_is_truncated_to_what_was_heard() -> None:
    """By us, who play it; and it is told."""
    async with Stage(replier=Answers(LONG, "Yes?")) as stage:
        said(stage)
        await stage.event("output_audio_buffer.started")
        await until(lambda: stage.track.clock and stage.track.clock.played > 2)
        stage.hear(LASTING + 0.064)
        (truncated,) = stage.all("conversation.item.truncated")
        item = await item_of(stage, truncated["item_id"])
    played = stage.all("voxrtc.playout")[0]["played_ms"]
    assert truncated["audio_end_ms"] == pytest.approx(played, abs=1)
    assert item["status"] == "incomplete"
    assert len(item["content"][0]["transcript"].split()) == pytest.approx(played / 100, abs=2)  # 0.1 s a word


async def test_a_client_that_truncates_is_believed() -> None:
    answers = Answers("One two three four five six seven eight.", "Yes.")
    async with Stage(replier=answers) as stage:
        said(stage)
        await stage.event("output_audio_buffer.stopped")
        spoken = stage.all("conversation.item.added")[1]["item"]["id"]
        stage.do("conversation.item.truncate", item_id=spoken, content_index=0, audio_end_ms=400)
        truncated = stage.all("conversation.item.truncated")[0]
        assert (truncated["item_id"], truncated["content_index"], truncated["audio_end_ms"]) == (spoken, 0, 400)
        stage.do("conversation.item.truncate", item_id=spoken, content_index=0, audio_end_ms=9_000)
        stage.do("conversation.item.truncate", item_id=spoken, content_index=0, audio_end_ms=-1)
        said(stage)
        await stage.event("response.done", 2)
    assert answers.asked[1][2] == Said("assistant", "One two three four")
    assert [error["param"] for error in stage.errors] == ["audio_end_ms", "audio_end_ms"]
    assert "800ms is already shorter than 9000ms" in stage.errors[0]["message"]


async def test_what_was_cancelled_before_its_first_sound_was_not_said() -> None:
    answers = Answers("Never heard.", "Yes.")
    async with Stage(speed=0.5, replier=answers) as stage:
        said(stage)
        await until(stage.generated)
        stage.do("response.cancel")
        stage.tone.speed = 0
        said(stage)
        await stage.event("response.done", 2)
    assert [type(each) for each in answers.asked[1]] == [Said] * 3
    assert [each.role for each in answers.asked[1] if isinstance(each, Said)] == ["system", "user", "user"]


async def test_a_reply_has_its_place_behind_what_it_answers() -> None:
    """Though something else is said while it is thought of."""
    async with Stage(replier=Answers("An answer.")) as stage:
        stage.say("first")
        stage.item("second")
        await stage.event("response.done")
        added = stage.all("conversation.item.added")
    assert [event["item"]["role"] for event in added] == ["user", "user", "assistant"]
    assert added[2]["previous_item_id"] == added[0]["item"]["id"]


async def test_a_response_may_stay_out_of_the_conversation() -> None:
    answers = Answers("Aside.", "Yes.")
    async with Stage(replier=answers) as stage:
        stage.item("first")
        id = stage.all("conversation.item.added")[0]["item"]["id"]
        given = [{"type": "item_reference", "id": id}]
        stage.do("response.create", response={"conversation": "none", "input": given, "instructions": "Whisper."})
        await stage.event("output_audio_buffer.stopped")
        assert len(stage.all("conversation.item.added")) == 1
        assert len(stage.all("response.output_item.added")) == 1
        stage.do("response.create")
        await stage.event("response.done", 2)
        stage.do("response.create", response={"input": [{"type": "item_reference", "id": "gone"}]})
        spoken = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": pcm(0.1)}]}
        stage.do("response.create", response={"input": [spoken]})
    assert answers.asked == [
        [Said("system", "Whisper."), Said("user", "first")],
        [Said("system", "Be brief."), Said("user", "first")],
    ]
    assert [(error["code"], error["param"]) for error in stage.errors] == [
        ("item_not_found", "response.input[0].id"),
        ("invalid_value", "response.input[0].content"),
    ]


# --- transcripts ---


async def test_a_response_waits_for_the_transcript() -> None:
    """Push to talk: asked for in the same breath."""
    answers = Answers("Here I am.")
    async with Stage(replier=answers) as stage:
        manual(stage)
        stage.hearing.answer = None
        stage.hear(0.64)
        stage.do("input_audio_buffer.commit")
        stage.do("response.create")
        await stage.event("response.created")
        assert answers.asked == []
        (reader,) = stage.hearing.readers.values()
        reader.transcript("good morning")
        await stage.event("output_audio_buffer.stopped")
    assert answers.asked[0][1:] == [Said("user", "good morning")]
    assert stage.errors == []


async def test_an_item_that_is_referred_to_is_waited_for() -> None:
    answers = Answers("Here I am.")
    async with Stage(replier=answers) as stage:
        manual(stage)
        stage.hearing.answer = None
        stage.hear(0.64)
        stage.do("input_audio_buffer.commit")
        given = [{"type": "item_reference", "id": stage.all("input_audio_buffer.committed")[0]["item_id"]}]
        stage.do("response.create", response={"input": given})
        await stage.event("response.created")
        assert answers.asked == []
        (reader,) = stage.hearing.readers.values()
        reader.transcript("good morning")
        await stage.event("response.done")
    assert answers.asked[0][1:] == [Said("user", "good morning")]


@pytest.mark.parametrize("lost", [False, True])
async def test_a_silence_is_not_answered(lost: bool) -> None:
    """Nor what nobody could write down."""
    answers = Answers("What?")
    async with Stage(replier=answers) as stage:
        manual(stage)
        stage.hearing.answer, stage.hearing.lost = "", lost
        stage.hear(0.64)
        stage.do("input_audio_buffer.commit")
        stage.do("response.create")
        done = await stage.event("response.done")
    assert done["response"]["status_details"]["error"]["code"] == "nothing_to_say"
    assert answers.asked == []


async def test_a_spoken_item_that_the_client_makes_is_written_down() -> None:
    answers = Answers("Here I am.")
    async with Stage(replier=answers) as stage:
        content = [{"type": "input_audio", "audio": pcm(0.64)}]
        stage.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        completed = await stage.event(f"{EVENT}.completed")
        assert completed["item_id"] == stage.all("conversation.item.added")[0]["item"]["id"]
        assert "response.created" not in stage.types  # nobody asked
        stage.do("response.create")
        await stage.event("response.done")
        (sound,) = stage.hearing.sound.values()
        content = [{"type": "input_audio", "audio": "?"}]
        stage.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    assert len(sound) / 32_000 == pytest.approx(0.64, abs=0.033)
    assert answers.asked[0][1:] == [Said("user", "hello there")]
    assert [error["param"] for error in stage.errors] == ["item.content[0].audio"]


async def test_a_spoken_item_is_forgotten_when_its_client_leaves() -> None:
    async with Stage() as stage:
        content = [{"type": "input_audio", "audio": pcm(0.64)}]
        stage.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await asyncio.sleep(0)
        stage.session.closed()
        await until(lambda: stage.hearing.forgotten)
        assert stage.hearing.forgotten == list(stage.hearing.sound)
        assert not stage.hearing.finished


# --- sound in events ---


async def test_appended_sound_is_heard_as_a_microphones() -> None:
    """Speech begins and ends a turn; the pieces may have any length."""
    async with Stage() as stage:
        sound = np.concatenate([np.zeros(12_000), np.full(24_000, LOUD), np.zeros(24_000)]).astype(np.int16).tobytes()
        for at in range(0, len(sound), 2_002):
            stage.do("input_audio_buffer.append", audio=base64.b64encode(sound[at : at + 2_002]).decode())
        completed = await stage.event(f"{EVENT}.completed")
        (heard,) = stage.hearing.sound.values()
    assert stage.types.index("input_audio_buffer.speech_started") < stage.types.index("input_audio_buffer.speech_stopped")
    assert completed["transcript"] == "hello there"
    loud = np.count_nonzero(np.abs(np.frombuffer(heard, np.int16).astype(int)) > LOUD / 2)
    assert loud / 16_000 == pytest.approx(1.0, abs=0.005)


async def test_push_to_talk_by_events() -> None:
    """To the last sample; a second turn begins anew."""
    async with Stage() as stage:
        manual(stage)
        for seconds in (0.25, 0.125):
            stage.do("input_audio_buffer.append", audio=pcm(seconds))
            stage.do("input_audio_buffer.commit")
        stage.do("input_audio_buffer.append", audio=pcm(1.0))
        stage.do("input_audio_buffer.clear")
        stage.do("input_audio_buffer.commit")
        lengths = [np.count_nonzero(np.frombuffer(sound, np.int16)) / 16_000 for sound in stage.hearing.sound.values()]
    assert lengths == [pytest.approx(0.25, abs=0.002), pytest.approx(0.125, abs=0.002)]
    assert [error["code"] for error in stage.errors] == ["input_audio_buffer_commit_empty"]


async def test_other_formats_are_told_and_taken() -> None:
    async with Stage() as stage:
        manual(stage)
        stage.do("session.update", session={"audio": {"input": {"format": {"type": "audio/pcmu"}}}})
        told = stage.all("session.updated")[-1]["session"]["audio"]
        assert (told["input"]["format"], told["output"]["format"]) == (
            {"type": "audio/pcmu"},
            {"type": "audio/pcm", "rate": 24_000},
        )
        audio = encode(np.full(8_000, LOUD, np.int16), Format("audio/pcmu"))
        stage.do("input_audio_buffer.append", audio=audio)
        stage.do("input_audio_buffer.commit")
        (heard,) = stage.hearing.sound.values()
        stage.do("session.update", session={"audio": {"input": {"format": {"type": "audio/mp3"}}}})
    middle = np.frombuffer(heard, np.int16)[4_000:12_000]
    assert np.abs(middle - LOUD).max() < LOUD / 20
    assert [error["param"] for error in stage.errors] == ["session.audio.input.format.type"]


@pytest.mark.parametrize(
    ("law", "known"), [("audio/pcmu", {0xFF: 0, 0x80: 32124, 0x00: -32124}), ("audio/pcma", {0xD5: 8, 0xAA: 32256})]
)
def test_g711_is_what_the_standard_says(law: Any, known: dict[int, int]) -> None:
    format = Format(law)
    codes = bytes(range(256))
    samples = decode(base64.b64encode(codes).decode(), format, "audio")
    assert {code: int(samples[code]) for code in known} == known
    again = decode(encode(samples, format), format, "audio")
    assert np.array_equal(samples, again)
    loudness = np.arange(-32_000, 32_001, 7, dtype=np.int16)
    error = np.abs(decode(encode(loudness, format), format, "audio").astype(int) - loudness)
    assert (error <= np.maximum(np.abs(loudness.astype(int)) / 16, 20)).all()


@given(st.binary(max_size=64), st.sampled_from(["audio/pcm", "audio/pcmu", "audio/pcma"]))
def test_any_bytes_are_sound_or_a_mistake(data: bytes, kind: Any) -> None:
    try:
        samples = decode(base64.b64encode(data).decode(), Format(kind), "audio")
    except EventError:
        assert kind == "audio/pcm" and len(data) % 2
        return
    assert len(samples) == (len(data) // 2 if kind == "audio/pcm" else len(data))


# --- text, tools, length ---


async def test_a_reply_as_text() -> None:
    async with Stage(replier=Answers("Just words.")) as stage:
        stage.item("Write.")
        stage.do("response.create", response={"output_modalities": ["text"]})
        done = await stage.event("response.done")
    told = [type for type in stage.types if type.startswith(("response", "output_audio"))]
    assert told == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    assert done["response"]["output"][0]["content"] == [{"type": "output_text", "text": "Just words."}]
    assert done["response"]["output_modalities"] == ["text"]
    assert not stage.generated()


async def test_a_tool_is_called_and_its_result_told() -> None:
    answers = Answers(CALL, "It rains.")
    async with Stage(replier=answers) as stage:
        stage.do("session.update", session={"tools": [WEATHER], "tool_choice": "auto"})
        assert stage.all("session.updated")[0]["session"]["tools"] == [WEATHER]
        stage.say("How is Oslo?")
        done = await stage.event("response.done")
        (call,) = done["response"]["output"]
        assert (call["type"], call["status"], call["call_id"], call["name"], call["arguments"]) == (
            "function_call",
            "completed",
            *("call_1", "weather", '{"city": "Oslo"}'),
        )
        deltas = "".join(event["delta"] for event in stage.all("response.function_call_arguments.delta"))
        (whole,) = stage.all("response.function_call_arguments.done")
        assert deltas == whole["arguments"] == CALL.arguments
        assert {event["item_id"] for event in (whole, *stage.all("response.function_call_arguments.delta"))} == {call["id"]}
        stage.do("conversation.item.create", item={"type": "function_call_output", "call_id": "call_1", "output": "wet"})
        stage.do("response.create")
        await stage.event("output_audio_buffer.stopped")
        stage.do("conversation.item.create", item={"type": "function_call_output", "call_id": "call_9", "output": "wet"})
    first, second = answers.asks
    assert first.tools == [Tool("weather", "Tells it.", {"type": "object"})]
    assert second.messages[1:] == [Said("user", "How is Oslo?"), CALL, ToolResult("call_1", "wet")]
    assert [request.text for request in stage.generated()] == ["It rains."]
    assert [error["code"] for error in stage.errors] == ["invalid_tool_call_id"]


async def test_a_response_has_its_own_tools_instructions_and_length() -> None:
    answers = Answers("One two three four.", "Five.")
    async with Stage(replier=answers) as stage:
        stage.do("session.update", session={"tools": [WEATHER], "instructions": "Be kind.", "max_output_tokens": 100})
        choice = {"type": "function", "name": "time"}
        tool = {"type": "function", "name": "time"}
        wish = {"tools": [tool], "tool_choice": choice, "instructions": "", "max_output_tokens": 2}
        stage.item("Count.")
        stage.do("response.create", response=wish)
        done = await stage.event("response.done")
        await stage.event("output_audio_buffer.stopped")
        stage.do("response.create", response={"max_output_tokens": "inf"})
        await stage.event("response.done", 2)
        stage.do("response.create", response={"tool_choice": choice})
        stage.do("session.update", session={"tools": [{"type": "mcp", "server_label": "x"}]})
    first, second = answers.asks
    assert (first.max_tokens, first.tools, first.messages[0]) == (2, [Tool("time")], Said("user", "Count."))
    assert (second.max_tokens, second.tools[0].name, second.messages[0]) == (None, "weather", Said("system", "Be kind."))
    assert done["response"]["status"] == "incomplete"
    assert done["response"]["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert [request.text for request in stage.generated()] == ["One two", "Five."]
    assert [error["param"] for error in stage.errors] == ["response.tool_choice", "session.tools[0].type"]


# --- as they are given ---


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "reasoning"}, "item.type"),
        ({"type": "message"}, "item.role"),
        ({"type": "message", "role": "user"}, "item.content"),
        ({"type": "message", "role": "user", "content": [{"type": "input_image"}]}, "item.content[0].type"),
        ({"type": "message", "role": "user", "content": [{"type": "input_text"}]}, "item.content[0].text"),
        ({"type": "message", "role": "system", "content": [{"type": "input_audio"}]}, "item.content[0].type"),
        ({"type": "function_call", "name": "f"}, "item.arguments"),
        ({"type": "function_call_output", "output": "x"}, "item.call_id"),
    ],
)
async def test_an_item_that_cannot_be_is_refused(item: dict[str, Any], param: str) -> None:
    async with Stage() as stage:
        stage.do("conversation.item.create", item=item, event_id="e")
        (error,) = stage.errors
    assert (error["param"], error["event_id"], error["type"]) == (param, "e", "invalid_request_error")
    assert error["message"].endswith(".")


words = st.none() | st.text(max_size=5)
contents = st.builds(
    Content,
    type=st.sampled_from(["input_text", "input_audio", "output_text", "output_audio", "audio"]),
    text=words,
    audio=words,
    transcript=words,
)
wishes = st.builds(
    Item,
    type=st.sampled_from(["message", "function_call", "function_call_output", "mcp_call"]),
    role=st.sampled_from([None, "user", "assistant", "system", "tool"]),
    content=st.lists(contents, max_size=3),
    call_id=words,
    name=words,
    arguments=words,
    output=words,
)


@given(wishes)
def test_any_item_is_one_or_a_mistake(wish: Item) -> None:
    """And one that is, is told in a form that can be sent."""
    try:
        item = items.read(wish, "item")
    except EventError as mistake:
        where = str(mistake.param)
    else:
        told = json.loads(json.dumps(item.wire()))
        where = "item."
        assert (told["object"], told["type"]) == ("realtime.item", wish.type)
    assert where.startswith("item.")
