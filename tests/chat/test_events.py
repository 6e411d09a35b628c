"""Client events: what is read, and what a mistake is told to be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.chat import events
from voxrtc.chat.events import EventError
from voxrtc.chat.session_settings import Audio, SessionSettings


def test_the_events_that_a_page_sends() -> None:
    session = {"type": "realtime", "model": "lark", "instructions": "ignored", "audio": {"output": {"voice": "default"}}}
    update = events.parse(json.dumps({"type": "session.update", "event_id": "e1", "session": session}))
    assert isinstance(update, events.SessionUpdate)
    assert (update.event_id, update.session.model, update.session.voice) == ("e1", "lark", "default")
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    create = events.parse(json.dumps({"type": "conversation.item.create", "item": item}))
    assert isinstance(create, events.ItemCreate)
    assert create.item.content[0].text == "Hello"
    assert isinstance(events.parse('{"type":"response.create"}'), events.ResponseCreate)
    assert isinstance(events.parse('{"type":"response.cancel"}'), events.ResponseCancel)
    assert isinstance(events.parse(b'{"type":"output_audio_buffer.clear"}'), events.OutputClear)
    assert events.parse('{"type":"voxrtc.ping","id":"a","t":1.5}') == events.Ping(id="a", t=1.5)


def test_nulls_and_voices_by_reference() -> None:
    text = '{"type":"response.create","response":{"audio":{"output":{"voice":{"id":"v1"}}},"input":null,"metadata":null}}'
    create = events.parse(text)
    assert isinstance(create, events.ResponseCreate)
    assert create.response is not None
    assert create.response.voice == "v1"
    assert SessionSettings(audio=Audio()).voice is None


@pytest.mark.parametrize(
    ("text", "code", "param", "event_id"),
    [
        ("{", "invalid_json", None, None),
        ("", "invalid_json", None, None),
        ("[]", "invalid_event", "type", None),
        ("3", "invalid_event", "type", None),
        ('{"event_id":"e"}', "invalid_event", "type", None),
        ('{"type":7}', "invalid_event", "type", None),
        ('{"type":"session.destroy","event_id":"e"}', "invalid_value", "type", "e"),
        ('{"type":"session.update","event_id":"e"}', "invalid_type", None, "e"),
        ('{"type":"session.update","session":{"model":7},"event_id":"e"}', "invalid_type", "session.model", "e"),
        ('{"type":"conversation.item.create","item":{"type":"message","content":{}}}', "invalid_type", "item.content", None),
        ('{"type":"x","pad":"' + "x" * events.MAX_EVENT + '"}', "event_too_large", None, None),
    ],
)
def test_mistakes_are_named(text: str, code: str, param: str | None, event_id: str | None) -> None:
    with pytest.raises(EventError) as error:
        events.parse(text)
    assert (error.value.code, error.value.param, error.value.event_id) == (code, param, event_id)
    assert str(error.value).endswith(".")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


FIELDS = ["session", "item", "response", "id", "t", "audio", "item_id", "content_index", "audio_end_ms", "response_id"]


@given(st.sampled_from(events.TYPES), st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_json_is_an_event_or_a_mistake(type: str, fields: dict[str, object]) -> None:
    try:
        event = events.parse(json.dumps({**fields, "type": type}))
    except EventError:
        return
    assert isinstance(event, events.ClientEvent)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_a_mistake(data: bytes) -> None:
    with pytest.raises(EventError):
        events.parse(data)


def test_session_objects_of_an_offer() -> None:
    assert events.settings({"model": "lark", "tools": []}).model == "lark"
    with pytest.raises(EventError) as error:
        events.settings({"audio": {"output": {"voice": 3}}})
    assert error.value.param == "session.audio.output.voice"


def test_server_events_have_ids_of_their_own() -> None:
    first, second = (json.loads(events.error("code", "Message.", "param", "cause")) for _ in range(2))
    assert first["event_id"] != second["event_id"]
    assert first["error"] == {
        "type": "invalid_request_error",
        "code": "code",
        "message": "Message.",
        "param": "param",
        "event_id": "cause",
    }


@pytest.mark.parametrize(
    ("event", "param"),
    [
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "message", "content": [{"type": "input_text", "text": "a" * 32_769}]},
            },
            "text",
        ),
        (
            {"type": "conversation.item.create", "item": {"type": "message", "content": [{"type": "input_text"}] * 65}},
            "content",
        ),
        ({"type": "conversation.item.create", "item": {"type": "function_call", "name": "a" * 65}}, "name"),
        ({"type": "conversation.item.create", "item": {"type": "function_call", "call_id": "a" * 4097}}, "call_id"),
        ({"type": "response.create", "response": {"input": [{"type": "message"}] * 257}}, "input"),
        ({"type": "session.update", "session": {"instructions": "a" * 32_769}}, "instructions"),
        ({"type": "session.update", "session": {"tools": [{"type": "function", "name": "a"}] * 129}}, "tools"),
    ],
)
def test_what_is_too_long_to_be_dealt_with_is_refused(event: dict[str, Any], param: str) -> None:
    """Over a WebSocket an event may have 4 MB: of sound."""
    with pytest.raises(EventError, match="length <=") as refused:
        events.parse(json.dumps(event), most=1 << 22)
    assert param in (refused.value.param or "")
