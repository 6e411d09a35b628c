"""What the person says is answered: by an endpoint, clause by clause, from the conversation as it was heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from hypothesis import given
from hypothesis import strategies as st

from tests.chat.stage import Stage, until
from tests.chat.test_listening import manual, said
from tests.fake_chat import Answers, chat_app
from tests.serving import serving
from voxrtc.chat.clauses import LONGEST, Clauses
from voxrtc.chat.endpoint import ChatEndpoint
from voxrtc.chat.reply import (
    Ask,
    NamedTool,
    ReplyCut,
    ReplyFailed,
    Said,
    Tool,
    ToolCall,
    ToolResult,
    in_clauses,
)

TWO = "Well, hello there my friend. How are you today?"
LONG = " ".join(["so"] * 60) + "."  # 6 s of tone


def pieces(text: str, size: int) -> list[str]:
    clauses, found = Clauses(), []
    for at in range(0, len(text), size):
        found += clauses.add(text[at : at + size])
    rest = clauses.rest()
    return found + ([rest] if rest else [])


# --- clauses ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, of course I will, right now. Then we go.", ["Yes, of course I will,", "right now.", "Then we go."]),
        ("Hello there! It costs 3.50, you know. Fine.", ["Hello there!", "It costs 3.50, you know.", "Fine."]),
        ("No end in sight", ["No end in sight"]),
        ("", []),
        ("  \n ", []),
        ('He said "good morning." And left.', ['He said "good morning."', "And left."]),
    ],
)
def test_the_first_piece_comes_early_and_the_rest_by_sentences(text: str, expected: list[str]) -> None:
    assert pieces(text, 3) == expected


@given(st.text(alphabet="ab,.!? \n", max_size=600), st.integers(1, 50))
def test_no_word_is_lost_and_no_piece_is_endless(text: str, size: int) -> None:
    found = pieces(text, size)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(piece and len(piece) <= LONGEST + size for piece in found)


# --- the endpoint ---


async def test_an_endpoint_is_asked_as_openai_does() -> None:
    app = chat_app(TWO)
    with serving(app) as (host, port):
        chat = ChatEndpoint(f"http://{host}:{port}/v1/", "small", "secret")
        ask = Ask([Said("system", "Be brief."), Said("user", "Hello.")])
        assert "".join([delta async for delta in chat.reply(ask)]) == TWO
        await chat.close()
    (asked,) = app.state.asked
    assert asked == {
        "model": "small",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}],
        "stream": True,
    }


@pytest.mark.parametrize(
    ("path", "key", "words"), [("/v1", "wrong", "401.*Who are you"), ("/nowhere", "secret", "404"), ("", "", "does not answer")]
)
async def test_an_endpoint_that_refuses_is_told_as_such(path: str, key: str, words: str) -> None:
    with serving(chat_app()) as (host, port):
        chat = ChatEndpoint(f"http://{host}:{port}{path}" if path else "http://127.0.0.1:9", "small", key)
        with pytest.raises(ReplyFailed, match=words):
            _ = [delta async for delta in chat.reply(Ask([]))]
        await chat.close()


async def test_a_key_goes_to_no_other_place_than_the_endpoint() -> None:
    """Not along with a redirection, and no further."""
    other, chat = chat_app("Gotcha."), FastAPI()
    with serving(other) as (host, port):
        chat.post("/v1/chat/completions")(lambda: RedirectResponse(f"http://{host}:{port}/v1/chat/completions", 307))
        with serving(chat) as (first, its):
            replier = ChatEndpoint(f"http://{first}:{its}/v1", "small", "secret")
            with pytest.raises(ReplyFailed, match="307"):
                _ = [delta async for delta in replier.reply(Ask([]))]
            await replier.close()
    assert other.state.asked == []


async def test_an_empty_answer_is_none() -> None:
    with pytest.raises(ReplyFailed, match="without a word"):
        _ = [piece async for piece in in_clauses(Answers("").reply(Ask([])))]


WEATHER = Tool("weather", "Tells it.", {"type": "object", "properties": {"city": {"type": "string"}}})
IN_OSLO = ToolCall("call_1", "weather", '{"city": "Oslo"}')


async def test_tools_go_to_the_endpoint_and_calls_come_back() -> None:
    app = chat_app(IN_OSLO, "Rain.")
    with serving(app) as (host, port):
        chat = ChatEndpoint(f"http://{host}:{port}/v1", "small", "secret")
        said = Said("user", "How is Oslo?")
        assert [part async for part in chat.reply(Ask([said], [WEATHER], "required"))] == [IN_OSLO]
        after = [said, IN_OSLO, ToolCall("call_2", "weather", "{}"), ToolResult("call_1", "wet"), ToolResult("call_2", "?")]
        assert [part async for part in chat.reply(Ask(after, [WEATHER], NamedTool("weather")))] == ["Rain."]
        await chat.close()
    first, second = app.state.asked
    function = {"name": "weather", "description": "Tells it.", "parameters": WEATHER.parameters}
    assert first["tools"] == [{"type": "function", "function": function}]
    assert (first["tool_choice"], second["tool_choice"]) == (
        "required",
        {"type": "function", "function": {"name": "weather"}},
    )
    _, calls, wet, unknown = second["messages"]
    assert [call["id"] for call in calls["tool_calls"]] == ["call_1", "call_2"]
    assert calls["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert (wet, unknown["role"]) == ({"role": "tool", "tool_call_id": "call_1", "content": "wet"}, "tool")


async def test_an_answer_that_reaches_its_length_is_cut() -> None:
    with serving(chat_app(TWO)) as (host, port):
        chat = ChatEndpoint(f"http://{host}:{port}/v1", "small", "secret")
        pieces, reply = [], in_clauses(chat.reply(Ask([], max_tokens=3)))
        with pytest.raises(ReplyCut):
            async for piece in reply:
                pieces.append(piece)
        await chat.close()
    assert pieces == ["Well, hello there"]


async def test_the_words_before_a_call_come_before_it() -> None:
    async def reply() -> AsyncGenerator[str | ToolCall, None]:
        yield "Let me"
        yield " see"
        yield IN_OSLO

    assert [part async for part in in_clauses(reply())] == ["Let me see", IN_OSLO]


# --- the conversation ---


async def test_a_spoken_turn_is_answered() -> None:
    answers = Answers(TWO)
    async with Stage(replier=answers) as stage:
        assert stage.all("session.created")[0]["session"]["audio"]["input"]["turn_detection"]["create_response"]
        said(stage)
        await stage.event("output_audio_buffer.stopped")
        deltas = "".join(event["delta"] for event in stage.all("response.output_audio_transcript.delta"))
        (done,) = stage.all("response.done")
    assert answers.asked == [[Said("system", "Be brief."), Said("user", "hello there")]]
    assert [request.text for request in stage.generated()] == ["Well, hello there my friend.", "How are you today?"]
    assert [request.priority for request in stage.generated()] == [False, True]
    assert deltas == done["response"]["output"][0]["content"][0]["transcript"] == TWO
    assert stage.all("voxrtc.playout")[0]["played_ms"] == pytest.approx(900, abs=2)
    assert stage.all("voxrtc.playout")[0]["underruns"] == 0


async def test_the_first_clause_is_heard_while_the_rest_is_being_thought() -> None:
    gate = asyncio.Event()
    async with Stage(replier=Answers("One moment please, I think. It is Tuesday.", gate=gate)) as stage:
        said(stage)
        await stage.event("output_audio_buffer.started")
        assert [request.text for request in stage.generated()] == ["One moment please,"]
        gate.set()
        await stage.event("output_audio_buffer.stopped")
        assert [request.text for request in stage.generated()][1:] == ["I think.", "It is Tuesday."]


async def test_the_engine_is_told_how_much_of_each_piece_was_played() -> None:
    """Each is a stream of its own there."""
    async with Stage(speed=8, replier=Answers(f"{LONG} {LONG}")) as stage:
        said(stage)
        await stage.event("output_audio_buffer.stopped")
        first, second = (request.stream for request in stage.generated())
    played = {stream: [each.played for each in stage.playouts() if each.stream == stream] for stream in (first, second)}
    assert 3.5 < max(played[first]) <= 6.0
    assert min(played[second]) < 1.0
    assert 3.5 < max(played[second]) <= 6.0


async def test_the_next_reply_knows_what_was_heard() -> None:
    """Of an interrupted one, the words that were played."""
    answers = Answers(f"I will tell you. {LONG}", "Certainly.")
    async with Stage(replier=answers) as stage:
        said(stage)
        await stage.event("output_audio_buffer.started")
        await until(lambda: stage.track.clock and stage.track.clock.played > 5)
        said(stage)
        await stage.event("response.done", 2)
    _, _, heard, _ = answers.asked[1]
    assert heard.role == "assistant"
    assert heard.content.startswith("I will tell you. so so")
    assert 45 <= len(heard.content.split()) < 62  # of 64, by 0.1 s a word


async def test_a_turn_without_words_is_not_answered() -> None:
    answers = Answers("What?")
    async with Stage(replier=answers) as stage:
        stage.hearing.answer = ""
        said(stage)
    assert answers.asked == []


async def test_who_wants_no_answer_gets_none_until_it_asks() -> None:
    answers = Answers("Here I am.")
    async with Stage(replier=answers) as stage:
        detection = {"type": "server_vad", "create_response": False}
        stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
        said(stage)
        assert answers.asked == []
        stage.do("response.create")
        await stage.event("output_audio_buffer.stopped")
    assert len(answers.asked) == 1


async def test_push_to_talk_is_answered_when_asked() -> None:
    answers = Answers("Here I am.")
    async with Stage(replier=answers) as stage:
        manual(stage)
        stage.hear(0.64)
        stage.do("input_audio_buffer.commit")
        stage.do("response.create")
        await stage.event("output_audio_buffer.stopped")
    assert answers.asked[0][-1] == Said("user", "hello there")


async def test_given_words_are_spoken_as_they_are() -> None:
    """An input that ends with the assistant's words; a typed message is answered."""
    answers = Answers("An answer.")
    async with Stage(replier=answers) as stage:
        content = [{"type": "output_text", "text": "Just this."}]
        stage.do("response.create", response={"input": [{"type": "message", "role": "assistant", "content": content}]})
        await stage.event("output_audio_buffer.stopped")
        assert answers.asked == []
        stage.say("And you?")
        await stage.event("output_audio_buffer.stopped", 2)
    assert [request.text for request in stage.generated()] == ["Just this.", "An answer."]
    assert answers.asked[0][1:] == [Said("assistant", "Just this."), Said("user", "And you?")]


async def test_a_reply_that_fails_is_told_and_the_next_is_heard() -> None:
    answers = Answers()
    async with Stage(replier=answers) as stage:
        said(stage)
        done = await stage.event("response.done")
        assert done["response"]["status_details"]["error"]["code"] == "reply_failed"
        assert [error["message"] for error in stage.errors] == ["It is away."]
        answers.texts.append("Back again.")
        said(stage)
        await stage.event("output_audio_buffer.stopped")


async def test_interrupting_a_thought_ends_it() -> None:
    """Before a word of it was spoken: the endpoint is let go."""
    gate = asyncio.Event()
    async with Stage(replier=Answers("Hm let me see then", "Yes.", gate=gate)) as stage:
        said(stage)
        await stage.event("response.created")
        said(stage)
        await stage.event("output_audio_buffer.stopped")
    assert [event["response"]["status"] for event in stage.all("response.done")] == ["cancelled", "completed"]
    assert [request.text for request in stage.generated()] == ["Yes."]
