from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding import decode
from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from voxrtc.api.app import build_app
from voxrtc.api.encoders import ENCODERS
from voxrtc.messages.engine import Failed, Generate, Playout

pytestmark = pytest.mark.anyio
PATH = "/v1/audio/speech"
JSON = {"Content-Type": "application/json"}


def error(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, whose shape must be OpenAI's."""
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "code", "param"}
    assert body["error"]["message"]
    return body["error"]


@pytest.mark.parametrize("name", list(ENCODERS))
async def test_three_words_are_three_tenths_of_a_second(http: httpx.AsyncClient, name: str) -> None:
    wanted = {"model": "tone", "voice": "default", "input": "one two three", "response_format": name}
    answer = await http.post(PATH, json=wanted)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == ENCODERS[name].media_type
    heard, rate = (np.frombuffer(answer.content, "<i2"), 24_000) if name == "pcm" else decode(answer.content)
    assert 0.3 <= len(heard) / rate < (0.301 if name in ("wav", "pcm", "flac", "opus") else 0.4)


async def test_mp3_is_what_comes_unasked(http: httpx.AsyncClient) -> None:
    assert (await http.post(PATH, json={"input": "one"})).headers["content-type"] == "audio/mpeg"


async def test_the_engine_is_told_what_was_asked_and_taken(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    wanted = {"model": "tone", "voice": "v", "input": "one two three", "response_format": "pcm", "instructions": "Whisper."}
    await http.post(PATH, json=wanted)
    asked, *reports = tone.requests
    assert isinstance(asked, Generate)
    assert (asked.text, asked.model, asked.voice, asked.instructions) == ("one two three", "tone", "v", "Whisper.")
    assert all(isinstance(report, Playout) and report.stream == asked.stream for report in reports)
    assert [report.taken for report in reports] == pytest.approx([0.1, 0.2, 0.3])
    assert all(0 <= report.played <= report.taken for report in reports), "it cannot have played what it has not got"


async def test_server_sent_events_carry_the_same_bytes(http: httpx.AsyncClient) -> None:
    wanted = {"input": "one two three", "response_format": "wav"}
    plain = await http.post(PATH, json=wanted)
    answer = await http.post(PATH, json={**wanted, "stream_format": "sse"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1] == {"type": "speech.audio.done"}
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == plain.content


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("input", {}),
        ("input", {"input": ""}),
        ("input", {"input": " \n\t"}),
        ("input", {"input": "x" * 10_001}),
        ("input", {"input": ["text"]}),
        ("instructions", {"input": "one", "instructions": "x" * 32_769}),
        ("input_audio.format", {"input": "one", "input_audio": {"data": "", "format": "x" * 101}}),
        ("ref_text", {"input": "one", "ref_text": "x" * 1_001}),
        ("voice", {"input": "one", "voice": 3}),
        ("model", {"input": "one", "model": None}),
        ("speed", {"input": "one", "speed": 1.5}),
        ("speed", {"input": "one", "speed": "fast"}),
        ("response_format", {"input": "one", "response_format": "ogg"}),
        ("stream_format", {"input": "one", "stream_format": "websocket"}),
    ],
)
async def test_a_bad_field_is_named(http: httpx.AsyncClient, tone: ToneTransport, field: str, body: dict[str, Any]) -> None:
    answer = await http.post(PATH, json=body)
    fault = error(answer)
    assert answer.status_code == 400
    assert (fault["type"], fault["param"]) == ("invalid_request_error", field)
    assert field in fault["message"]
    assert not tone.requests


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"input": "\\ud800"}',
        b'{"input": "a", "speed": NaN}',
        b'{"input": "a", "speed": ' + b"9" * 5_000 + b"}",
        b'{"input": "a", "voice": "\\udfff"}',
    ],
)
async def test_broken_bodies_are_refused(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post(PATH, content=body, headers=JSON)
    assert answer.status_code == 400
    assert error(answer)["type"] == "invalid_request_error"


async def test_the_longest_text_fits_however_it_is_escaped(http: httpx.AsyncClient) -> None:
    body = json.dumps({"input": "\N{GRINNING FACE}" * 10_000, "response_format": "pcm"}, ensure_ascii=True)
    assert (await http.post(PATH, content=body, headers=JSON)).status_code == 200


async def test_a_huge_body_is_not_read(http: httpx.AsyncClient) -> None:
    answer = await http.post(PATH, content=b" " * 9_000_000, headers=JSON)
    assert answer.status_code == 413
    assert error(answer)["code"] == "too_large"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("invalid_request", 400),
        ("model_not_found", 404),
        ("busy", 503),
        ("engine_error", 500),
        ("engine_lost", 503),
    ],
)
async def test_a_failure_before_the_first_sound_is_a_status(
    http: httpx.AsyncClient, tone: ToneTransport, monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    async def refuse(request: Generate) -> None:
        tone.on_reply(Failed(stream=request.stream, code=code, message="Not now."))

    monkeypatch.setattr(tone, "_speak", refuse)
    answer = await http.post(PATH, json={"input": "one"})
    fault = error(answer)
    assert (answer.status_code, fault["code"], fault["message"]) == (status, code, "Not now.")
    assert fault["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert answer.headers.get("retry-after") == ("3" if status == 503 else None)


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
async def test_a_full_queue_says_when_to_come_again(
    http: httpx.AsyncClient, tone: ToneTransport, monkeypatch: pytest.MonkeyPatch, stream_format: str
) -> None:
    async def refuse(request: Generate) -> None:
        tone.on_reply(Failed(stream=request.stream, code="busy", message="Full.", retry_after=12.3))

    monkeypatch.setattr(tone, "_speak", refuse)
    answer = await http.post(PATH, json={"input": "one", "stream_format": stream_format})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "13")


async def test_waiting_is_told_where_there_is_a_place_for_it(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    """In events, before the sound; a plain answer is the same with and without."""
    wanted = {"input": "one two", "response_format": "wav"}
    plain = await http.post(PATH, json=wanted)
    tone.places = 2
    assert (await http.post(PATH, json=wanted)).content == plain.content
    answer = await http.post(PATH, json={**wanted, "stream_format": "sse"})
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert events[:2] == [
        {"type": "voxrtc.queue", "position": 2, "wait_ms": 4000},
        {"type": "voxrtc.queue", "position": 1, "wait_ms": 2000},
    ]
    assert b"".join(base64.b64decode(event["audio"]) for event in events[2:-1]) == plain.content


async def test_an_engine_that_is_gone_is_503(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    tone.lose()
    answer = await http.post(PATH, json={"input": "one"})
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert error(answer)["code"] == "engine_lost"


async def test_wrong_paths_and_methods_have_the_same_shape(http: httpx.AsyncClient) -> None:
    missing, wrong = await http.get("/v1/audio/nothing"), await http.get(PATH)
    assert (missing.status_code, error(missing)["code"]) == (404, "not_found")
    assert (wrong.status_code, error(wrong)["code"], wrong.headers["allow"]) == (405, "method_not_allowed", "POST")


async def test_an_unforeseen_error_tells_nothing_of_the_inside(
    http: httpx.AsyncClient, tone: ToneTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(tone, "send", break_down)
    answer = await http.post(PATH, json={"input": "one"})
    assert answer.status_code == 500
    assert error(answer)["code"] == "internal_error"
    assert "secret" not in answer.text


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "input": st.text(max_size=40) | anything,
        "model": st.text(max_size=10) | anything,
        "voice": st.just("default") | anything,
        "response_format": st.sampled_from(list(ENCODERS)) | anything,
        "speed": st.just(1) | anything,
        "stream_format": st.just("audio") | anything,
        "instructions": anything,
        "unknown": anything,
    },
)


@settings(max_examples=150, deadline=None)
@given(body=(fields | anything).filter(lambda body: not (isinstance(body, dict) and body.get("input") == "fail")))
def test_any_json_gives_sound_or_a_client_error(body: Any) -> None:
    answer = asyncio.run(_post(body))
    if answer.status_code == 200:
        assert answer.content
    else:
        assert 400 <= answer.status_code < 500
        assert error(answer)["type"] == "invalid_request_error"


async def _post(body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(build_app(tones(), EchoMedia()))
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        return await client.post(PATH, content=json.dumps(body), headers=JSON)
