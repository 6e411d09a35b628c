"""`/v1/audio/speech` with a model that hears: a real engine with a tiny model answers."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator

import httpx
import numpy as np
import pytest
import soundfile

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.talking_engine import TalkingTransport
from voxrtc.api.app import build_app
from voxrtc.messages.conversation import Forget, Heard, Words

pytestmark = pytest.mark.anyio
PATH = "/v1/audio/speech"


@pytest.fixture
async def talker() -> AsyncIterator[TalkingTransport]:
    talker = TalkingTransport()
    yield talker
    await talker.close()


@pytest.fixture
async def http(talker: TalkingTransport) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(tones(talker, ToneTransport()), EchoMedia()), raise_app_exceptions=False)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        yield client


def recording(seconds: float = 1.5, level: float = 0.2) -> dict[str, str]:
    file = io.BytesIO()
    soundfile.write(file, np.full(round(16_000 * seconds), level), 16_000, format="WAV")
    return {"data": base64.b64encode(file.getvalue()).decode(), "format": "wav"}


async def test_a_question_in_sound_is_answered_in_sound(http: httpx.AsyncClient, talker: TalkingTransport) -> None:
    wanted = {"input_audio": recording(), "instructions": "Be brief.", "input": "And this.", "response_format": "pcm"}
    answer = await http.post(PATH, json=wanted)
    assert answer.status_code == 200 and len(answer.content) > 2_000
    asked = talker.generated[0]
    heard = Heard(hearing=f"{asked.stream}/input")
    assert asked.conversation == (Words(role="system", text="Be brief."), heard, Words(role="user", text="And this."))
    assert len(talker.model.asked[0].conversation[1].sound.codes) == 8, "1.5 s of sound"
    assert talker.requests[-1] == Forget(hearing=heard.hearing)


async def test_the_words_of_an_answer_come_as_events(http: httpx.AsyncClient, talker: TalkingTransport) -> None:
    answer = await http.post(PATH, json={"model": "talker", "input": "Who are you.", "stream_format": "sse"})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    deltas = "".join(event["delta"] for event in events if event["type"] == "transcript.text.delta")
    assert events[-2] == {"type": "transcript.text.done", "text": deltas} and deltas
    assert events[-1] == {"type": "speech.audio.done"} and any(event["type"] == "speech.audio.delta" for event in events)
    assert talker.generated[0].conversation == (Words(role="user", text="Who are you."),)


@pytest.mark.parametrize(
    ("wanted", "code", "param", "words"),
    [
        ({"model": "tone", "input_audio": recording()}, "cannot_hear", "input_audio", "speech-to-speech"),
        ({"model": "talker", "input_audio": {"data": "?"}}, "invalid_recording", "input_audio", "base64"),
        ({"model": "talker", "input_audio": recording(0.5)}, "invalid_recording", "input_audio", "0.5 s"),
        ({"model": "talker", "input_audio": recording(level=0.0)}, "invalid_recording", "input_audio", "silent"),
        ({"model": "talker", "input_audio": recording(40.0)}, "invalid_recording", "input_audio", "longer than 30 s"),
        ({"model": "nobody", "input_audio": recording()}, "model_not_found", None, "does not exist"),
        ({"model": "talker"}, "invalid_request", "input", "no text"),
        ({"model": "talker", "input": " "}, "invalid_request", "input", "no text"),
        ({"model": "talker", "input": "x" * 200}, "invalid_request", None, "too long"),
    ],
)
async def test_what_cannot_be_answered_is_told(
    http: httpx.AsyncClient, wanted: dict[str, object], code: str, param: str | None, words: str
) -> None:
    answer = await http.post(PATH, json=wanted)
    error = answer.json()["error"]
    assert answer.status_code == (404 if code == "model_not_found" else 400)
    assert (error["code"], error["param"]) == (code, param) and words in error["message"]
    assert (await http.post(PATH, json={"model": "talker", "input": "Still there."})).status_code == 200


async def test_a_model_that_reads_out_takes_a_text_as_ever(http: httpx.AsyncClient) -> None:
    answer = await http.post(PATH, json={"model": "tone", "input": "one two", "response_format": "pcm"})
    assert len(answer.content) == 2 * 4800
