"""Messages that are nearly events: each is done or complained of, the session lives on, and its sound goes on."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import pytest

from tests.chat.stage import LONG, Stage
from tests.fuzz import mutate

pytestmark = pytest.mark.anyio
SOUND = base64.b64encode(bytes(960)).decode()
CONTENT = [{"type": "input_text", "text": "one two"}]
ITEM = {"type": "message", "role": "user", "id": "item_1", "content": CONTENT}
TOOL = {"type": "function", "name": "weather", "description": "of a city", "parameters": {"type": "object", "properties": {}}}
SESSION = {
    "type": "realtime",
    "model": "tone",
    "instructions": "Be brief.",
    "tools": [TOOL],
    "tool_choice": "auto",
    "output_modalities": ["audio"],
    "max_output_tokens": 100,
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24_000}, "turn_detection": {"type": "server_vad", "threshold": 0.5}},
        "output": {"voice": "default", "format": {"type": "audio/pcmu"}},
    },
}
EVENTS: list[dict[str, Any]] = [
    {"type": "session.update", "event_id": "e1", "session": SESSION},
    {"type": "conversation.item.create", "previous_item_id": None, "item": ITEM},
    {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": SOUND}]},
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
    },
    {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c1", "output": "rain"}},
    {"type": "conversation.item.retrieve", "item_id": "item_1"},
    {"type": "conversation.item.truncate", "item_id": "item_1", "content_index": 0, "audio_end_ms": 100},
    {"type": "conversation.item.delete", "item_id": "item_1"},
    {"type": "response.create", "response": {"conversation": "none", "input": [ITEM], "metadata": {"a": "b"}}},
    {"type": "response.create"},
    {"type": "response.cancel", "response_id": "resp_1"},
    {"type": "output_audio_buffer.clear"},
    {"type": "input_audio_buffer.append", "audio": SOUND},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "voxrtc.ping", "id": "p", "t": 12.5},
    {"type": "voxrtc.pong"},
    {"type": "voxrtc.network", "network": {"rtt_ms": 20.0, "loss": 0.1, "jitter_ms": 3.0}},
]


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.chaos)])
async def test_no_event_ends_a_session(count: int) -> None:
    rng = random.Random(count)
    async with Stage() as other, Stage() as stage:
        other.say(LONG)
        for number in range(count):
            told = len(stage.events)
            valid = rng.choice(EVENTS)
            stage.session.received(
                mutate.message(rng, valid) if rng.random() < 0.9 else mutate.message(rng, valid).encode("utf-8", "replace")
            )
            assert not [event for event in stage.events[told:] if event.get("error", {}).get("code") == "internal_error"]
            if number % 8 == 0:
                await asyncio.sleep(0)
        stage.do("session.update", session={"type": "realtime", "output_modalities": ["audio"], "tools": []})
        stage.do("voxrtc.ping", id="last")
        last = stage.all("voxrtc.pong")[-1]
        played = await other.event("voxrtc.playout")
    assert last["id"] == "last"
    assert (played["underruns"], round(played["played_ms"])) == (0, 10_000)
    assert len(stage.errors) > count / 4, "most are wrong"
    assert all(error["message"] and error["code"] for error in stage.errors)
