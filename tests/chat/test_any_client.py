"""Whatever a client sends, and in whatever order: it is told of its mistakes, and the session lives on."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat.stage import Stage
from tests.fake_chat import Answers
from voxrtc.chat.reply import ToolCall

ids = st.sampled_from(["a", "b", "root"])
texts = st.text(max_size=8)
sound = st.integers(0, 6_000).map(lambda samples: base64.b64encode(b"\x10\x20" * samples).decode()) | texts
content = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_audio", "output_text", "output_audio"])},
    optional={"text": texts, "audio": sound, "transcript": texts},
)
item = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "function_call_output", "item_reference"])},
    optional={
        "id": ids,
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.lists(content, max_size=2),
        "call_id": ids,
        "name": texts,
        "arguments": texts,
        "output": texts,
    },
)
tool = st.fixed_dictionaries({"type": st.just("function"), "name": st.sampled_from(["weather", "time"])})
manner = {
    "instructions": texts,
    "output_modalities": st.sampled_from([["audio"], ["text"], [], ["audio", "text"]]),
    "max_output_tokens": st.sampled_from([1, 3, "inf", 0]),
    "tools": st.lists(tool, max_size=2),
    "tool_choice": st.sampled_from(["auto", "none", {"type": "function", "name": "time"}]),
}
audio = st.fixed_dictionaries(
    {},
    optional={
        "input": st.fixed_dictionaries(
            {},
            optional={
                "format": st.sampled_from([{"type": "audio/pcm"}, {"type": "audio/pcmu"}, {"type": "audio/pcma"}]),
                "turn_detection": st.sampled_from([None, {"type": "server_vad"}, {"type": "semantic_vad"}]),
            },
        ),
        "output": st.just({"voice": "default"}),
    },
)
session = st.fixed_dictionaries({}, optional={**manner, "audio": audio})
response = st.fixed_dictionaries(
    {}, optional={**manner, "input": st.lists(item, max_size=2), "conversation": st.sampled_from(["auto", "none"])}
)
event = st.one_of(
    st.fixed_dictionaries({"type": st.just("session.update"), "session": session}),
    st.fixed_dictionaries({"type": st.just("input_audio_buffer.append"), "audio": sound}),
    st.sampled_from([{"type": f"input_audio_buffer.{verb}"} for verb in ("commit", "clear")]),
    st.fixed_dictionaries({"type": st.just("conversation.item.create"), "item": item}, optional={"previous_item_id": ids}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["conversation.item.retrieve", "conversation.item.delete"]), "item_id": ids}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("conversation.item.truncate"),
            "item_id": ids,
            "content_index": st.integers(-1, 1),
            "audio_end_ms": st.integers(-1, 500),
        }
    ),
    st.fixed_dictionaries({"type": st.just("response.create")}, optional={"response": response}),
    st.sampled_from([{"type": "response.cancel"}, {"type": "output_audio_buffer.clear"}, {"type": "none"}]),
)
ANSWERS = ("One two three.", ToolCall("a", "weather", "{}"), "") * 4


@settings(max_examples=60, deadline=None)
@given(st.lists(event, max_size=12), st.booleans())
def test_any_client(sent: list[dict[str, Any]], answered: bool) -> None:
    asyncio.run(_talk(sent, answered))


async def _talk(sent: list[dict[str, Any]], answered: bool) -> None:
    async with Stage(replier=Answers(*ANSWERS) if answered else None) as stage:
        for number, each in enumerate(sent):
            stage.do(**each, event_id=f"e{number}")
            await asyncio.sleep(0)
        stage.do("response.cancel")
        stage.do("session.update", session={"output_modalities": ["audio"], "tools": [], "tool_choice": "auto"})
        told = {event["type"] for event in stage.events}
        assert "session.updated" in told
        assert "internal_error" not in {error["code"] for error in stage.errors}
        for error in stage.errors:
            assert error["message"].endswith(".")
        begun, done = stage.all("response.created"), stage.all("response.done")
        assert len(begun) == len(done)
