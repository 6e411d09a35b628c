"""`/v1/audio/voices`: a recording becomes a voice, is spoken with, and goes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from tests.api.test_guests import Time
from tests.api.test_recording import file
from tests.api.test_recording import tone as sine
from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.waiting import until
from voxrtc.api.app import build_app
from voxrtc.api.voices import IDLE, OWN
from voxrtc.chat.media_client import CallRefused
from voxrtc.messages.engine import ForgetVoice, Generate, Reference

pytestmark = pytest.mark.anyio
VOICES = "/v1/audio/voices"


def speech(seconds: float = 6.0, level: float = 0.3, hum: float = 0.0) -> np.ndarray:
    """Syllables of a tone, and pauses between them."""
    sound = sine(seconds, level)
    sound[(np.arange(len(sound)) // 6000) % 2 == 1] *= 0.001
    return sound + hum * np.sin(np.arange(len(sound)) / 30)


def upload(samples: np.ndarray | bytes, rate: int = 24_000, consent: str = "true", **fields: str) -> dict[str, Any]:
    sound = samples if isinstance(samples, bytes) else base64.b64decode(file(samples, rate=rate))
    return {"files": {"audio_sample": ("me.wav", sound)}, "data": {"consent": consent, **fields}}


@pytest.fixture
async def app(tone: ToneTransport, media: EchoMedia) -> FastAPI:
    return build_app(tones(tone), media)  # type: ignore[arg-type]


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        yield client


async def make(http: httpx.AsyncClient, *parts: Any, **fields: str) -> dict[str, Any]:
    answer = await http.post(VOICES, **upload(*(parts or (speech(),)), **fields))
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def forgotten(tone: ToneTransport) -> list[str]:
    return [request.digest for request in tone.requests if isinstance(request, ForgetVoice)]


async def test_a_recording_becomes_a_voice_and_says_what_was_measured(http: httpx.AsyncClient, media: EchoMedia) -> None:
    voice = await make(http, speech(6.0), name=" Ada ", ref_text="Hello there.")
    ours = voice["voxrtc"]
    assert voice["object"] == "audio.voice" and voice["name"] == "Ada" and ours["text"] == "Hello there."
    assert ours["seconds"] == 6.0 and ours["sample_rate"] == 24_000 and ours["clipped"] == 0.0 and not ours["warnings"]
    assert ours["level_db"] == pytest.approx(20 * np.log10(0.3 / np.sqrt(2)), abs=0.5)
    assert ours["noise_db"] == pytest.approx(ours["level_db"] - 60, abs=1) and ours["expires_in"] == IDLE
    assert (await http.get(f"{VOICES}/{voice['id']}")).json() == voice
    assert list(media.voices) == [voice["id"]], "sessions may choose it"


@pytest.mark.parametrize(
    ("sound", "rate", "told"),
    [
        (speech(3.0), 24_000, "short"),
        (speech(level=0.008), 24_000, "soft"),
        (speech(hum=0.1), 24_000, "noisy"),
        (speech(), 8_000, "narrow"),
    ],
)
async def test_what_could_be_better_is_told(http: httpx.AsyncClient, sound: np.ndarray, rate: int, told: str) -> None:
    warnings = (await make(http, sound, rate))["voxrtc"]["warnings"]
    assert [warning["code"] for warning in warnings] == [told] and warnings[0]["message"]


@pytest.mark.parametrize(
    ("wrong", "field", "told"),
    [
        (upload(speech(), consent=""), "consent", "its owner agreed"),
        (upload(speech(), consent="yes"), "consent", "Send `true`"),
        ({"data": {"consent": "true", "audio_sample": "text"}, "files": {"other": b""}}, "audio_sample", "sound file"),
        (upload(b"no sound at all" * 100), "audio_sample", "no sound file"),
        (upload(speech(0.5)), "audio_sample", "0.5 s"),
        (upload(speech(31.0)), "audio_sample", "longer than 30 s"),
        (upload(speech(level=0.0005)), "audio_sample", "silent"),
        (upload(speech(level=3.0)), "audio_sample", "too loud"),
        (upload(speech(), ref_text="la " * 400), "ref_text", "1000 characters"),
        (upload(speech(), name="x" * 101), "name", "100 characters"),
    ],
)
async def test_what_is_wrong_is_told(
    http: httpx.AsyncClient, media: EchoMedia, wrong: dict[str, Any], field: str, told: str
) -> None:
    answer = await http.post(VOICES, **wrong)
    fault = answer.json()["error"]
    assert answer.status_code == 400 and fault["param"] == field and told in fault["message"]
    assert not media.voices


async def test_other_bodies_and_other_sites_are_refused(http: httpx.AsyncClient) -> None:
    assert (await http.post(VOICES, json={})).status_code == 415
    broken = await http.post(VOICES, content=b"--x", headers={"Content-Type": "multipart/form-data"})
    assert broken.status_code == 400 and "cannot be read" in broken.json()["error"]["message"]
    large = await http.post(VOICES, **upload(b"0" * (9 << 20)))
    assert large.status_code == 413
    elsewhere = await http.post(VOICES, **upload(speech()), headers={"Origin": "https://elsewhere.example"})
    assert elsewhere.status_code == 403 and elsewhere.json()["error"]["code"] == "cross_origin"


@pytest.mark.parametrize("form", [lambda id: id, lambda id: {"id": id}])
async def test_speech_in_that_voice(http: httpx.AsyncClient, tone: ToneTransport, form: Any) -> None:
    voice = await make(http, ref_text="La.")
    wanted = {"input": "one", "voice": form(voice["id"]), "response_format": "pcm"}
    assert (await http.post("/v1/audio/speech", json=wanted)).status_code == 200
    (asked,) = (request for request in tone.requests if isinstance(request, Generate))
    assert asked.reference and asked.reference.text == "La." and len(asked.reference.pcm) == 2 * 6 * 24_000


async def test_a_voice_that_is_deleted_is_nowhere_any_more(
    http: httpx.AsyncClient, tone: ToneTransport, media: EchoMedia
) -> None:
    mine, other = await make(http, speech(6.0)), await make(http, speech(7.0))
    digest = media.voices[mine["id"]].digest
    answer = await http.delete(f"{VOICES}/{mine['id']}")
    assert answer.json() == {"id": mine["id"], "object": "audio.voice", "deleted": True}
    assert list(media.voices) == [other["id"]] and forgotten(tone) == [digest]
    for again in (http.get(f"{VOICES}/{mine['id']}"), http.delete(f"{VOICES}/{mine['id']}")):
        assert (await again).json()["error"]["code"] == "voice_gone"
    gone = await http.post("/v1/audio/speech", json={"input": "one", "voice": mine["id"]})
    assert gone.status_code == 404 and "again" in gone.json()["error"]["message"]
    assert not any(isinstance(request, Generate) for request in tone.requests), "nobody speaks with another voice instead"


async def test_a_recording_is_written_down(http: httpx.AsyncClient, media: EchoMedia) -> None:
    path, sound = "/v1/audio/transcriptions", {"file": ("me.wav", base64.b64decode(file(speech(2.0))))}
    assert (await http.post(path, files=sound, data={"model": "whisper-1"})).json() == {"text": f"{2 * 2 * 16_000} bytes"}
    assert (await http.post(path, files=sound, data={"response_format": "text"})).text == f"{2 * 2 * 16_000} bytes"
    wrongs: list[tuple[dict[str, Any], str]] = [({"data": {"response_format": "srt"}}, "response_format")]
    for wrong, field in [*wrongs, ({"files": {"file": b"none"}}, "file")]:
        answer = await http.post(path, **{"files": sound, **wrong})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field
    media.refusal = CallRefused(503, "transcriber_lost", "It is away.")
    away = await http.post(path, files=sound)
    assert away.status_code == 503 and away.json()["error"]["code"] == "transcriber_lost"


async def test_nobody_gets_anothers_voice(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    one, two = await make(http, speech(6.0), name="me"), await make(http, speech(7.0), name="me")
    for voice, seconds in ((one, 6), (two, 7), (one, 6)):
        await http.post("/v1/audio/speech", json={"input": "one", "voice": voice["id"], "response_format": "pcm"})
        asked = [request for request in tone.requests if isinstance(request, Generate)][-1]
        assert asked.reference and len(asked.reference.pcm) == 2 * seconds * 24_000
    assert (await http.get(VOICES)).status_code == 405, "there is no list"
    for guess in ("me", "default", one["id"][:-1] + ("0" if one["id"][-1] != "0" else "1")):
        assert (await http.get(f"{VOICES}/{guess}")).status_code == 404


async def test_what_makes_room_is_forgotten_too(http: httpx.AsyncClient, tone: ToneTransport, media: EchoMedia) -> None:
    first = await make(http, speech(5.5))
    digest = media.voices[first["id"]].digest
    for _ in range(OWN):
        await make(http)
    assert first["id"] not in media.voices and len(media.voices) == OWN and forgotten(tone) == [digest]


async def test_who_uses_a_voice_in_a_call_keeps_it(app: FastAPI, http: httpx.AsyncClient, media: EchoMedia) -> None:
    clock = Time()
    app.state.cloning.voices._clock = clock
    used, left = await make(http, speech(6.0)), await make(http, speech(7.0))
    media.used = [used["id"]]
    clock.now += IDLE - 1
    await app.state.cloning.look()
    assert len(media.voices) == 2
    media.refusal = CallRefused(503, "media_lost", "gone")
    clock.now += 1
    await app.state.cloning.look()
    media.refusal = None
    assert (await http.get(f"{VOICES}/{used['id']}")).status_code == 200
    assert (await http.get(f"{VOICES}/{left['id']}")).status_code == 404


async def test_a_media_process_that_is_started_anew_is_told_all(http: httpx.AsyncClient, media: EchoMedia) -> None:
    media.refusal = CallRefused(503, "media_lost", "gone")
    voice = await make(http)
    assert not media.voices
    deleted = await make(http)
    media.refusal = None
    media.found()
    await http.delete(f"{VOICES}/{deleted['id']}")
    await until(lambda: media.voices, every=0)
    assert list(media.voices) == [voice["id"]] and isinstance(media.voices[voice["id"]], Reference)
