"""A session over a WebSocket, as the media process has it."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.chat.stage import LONG, LOUD, until
from tests.chat.test_media import ask, stats
from tests.fake_chat import Answers
from tests.fake_engine import ToneTransport, tones
from tests.fake_hearing import Hearing, loudness
from tests.waiting import PATIENCE
from voxrtc.chat.media import MediaServer, serve
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.chat.reply import Replier, Said
from voxrtc.chat.socket import MAX_EVENT
from voxrtc.messages.engine import Cancel
from voxrtc.messages.media import ClientEvent, HangUp, HungUp, Open, Opened, Over, Refused, ServerEvent, Taken
from voxrtc.settings import Settings

BY_SILENCE = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
WEBRTC_ALONE = ("output_audio_buffer.", "voxrtc.playout")


class Client:
    """Of a media server, without a web process between them."""

    def __init__(self, replier: Replier | None = None, speed: float = 0.0, **settings: Any) -> None:
        self.tone, self.hearing = ToneTransport(speed), Hearing()
        self.media = MediaServer(tones(self.tone), self.hearing, lambda: replier, Settings(**settings))
        self.events: list[dict[str, Any]] = []

    async def __aenter__(self) -> Client:
        assert await self.open() == Opened(call="a")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.media.close()

    async def open(self, call: str = "a", session: dict[str, Any] | None = None) -> object:
        return await self.media.handle(Open(call=call, session=session or BY_SILENCE), self.take)

    def take(self, event: object) -> None:
        if isinstance(event, Over):  # for who counts calls
            return
        assert isinstance(event, ServerEvent)
        self.events.append(json.loads(event.text))

    async def do(self, type: str, **fields: Any) -> None:
        taken = await ask(self.media, ClientEvent(call="a", text=json.dumps({"type": type, **fields})))
        assert taken == Taken(call="a", known=True)

    async def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        await self.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.do("response.create")

    async def append(self, seconds: float, loud: bool = True) -> None:
        samples = np.full(round(24_000 * seconds), LOUD if loud else 0, np.int16)
        await self.do("input_audio_buffer.append", audio=base64.b64encode(samples.tobytes()).decode())

    async def event(self, type: str, number: int = 1) -> dict[str, Any]:
        await until(lambda: len(self.all(type)) >= number)
        return self.all(type)[number - 1]

    def all(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [event["error"] for event in self.all("error")]

    def audio(self, response: str) -> np.ndarray:
        deltas = [event["delta"] for event in self.all("response.output_audio.delta") if event["response_id"] == response]
        return np.frombuffer(b"".join(map(base64.b64decode, deltas)), np.int16)


@pytest.fixture(autouse=True)
def loud_is_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.chat.server.VoiceDetector", lambda: loudness)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound that is given all at once is listened to all at once."""
    monkeypatch.setattr("voxrtc.chat.socket.FASTEST", 10_000.0)


async def test_how_to_speak_may_be_said_from_the_start() -> None:
    async with Client() as client:
        await client.media.handle(HangUp(call="a"), client.take)
        await client.open(session={**BY_SILENCE, "voxrtc": {"instructions": " Whisper. "}})
        created = await client.event("session.created", 2)
        assert created["session"]["voxrtc"]["instructions"] == "Whisper."


async def test_a_sentence_comes_as_events() -> None:
    async with Client() as client:
        await client.say("one two three")
        done = await client.event("response.done")
        response = done["response"]["id"]
        sound = client.audio(response)
        order = [event["type"] for event in client.events]
        delta = client.all("response.output_audio.delta")[0]
    assert order[0] == "session.created"
    assert len(sound) / 24_000 == pytest.approx(0.3, abs=0.001)
    spectrum = np.abs(np.fft.rfft(sound))
    assert np.argmax(spectrum) / 0.3 == pytest.approx(440, abs=5)
    assert (delta["item_id"], delta["content_index"]) == (done["response"]["output"][0]["id"], 0)
    assert len(order) - 1 - order[::-1].index("response.output_audio.delta") < order.index("response.output_audio.done")
    assert not [type for type in order if type.startswith(WEBRTC_ALONE)]


async def test_a_spoken_turn_is_answered(quick: None) -> None:
    answers = Answers("Here I am.")
    async with Client(answers) as client:
        await client.append(0.5, loud=False)
        await client.append(1.0)
        await client.append(0.6, loud=False)
        done = await client.event("response.done")
        assert len(client.audio(done["response"]["id"])) / 24_000 == pytest.approx(0.3, abs=0.001)
    assert answers.asked[0][1:] == [Said("user", "hello there")]


async def test_an_interruption_stops_the_sound_and_the_client_says_what_was_heard(quick: None) -> None:
    answers = Answers("One two three. " * 40, "Yes?")
    async with Client(answers) as client:
        await client.say("Count.")
        await client.event("response.output_audio.delta", 12)  # 1.2 s
        item = client.all("response.output_item.added")[0]["item"]["id"]
        await client.append(0.2)
        await client.event("input_audio_buffer.speech_started")
        done = await client.event("response.done")
        await until(lambda: [each for each in client.tone.requests if isinstance(each, Cancel)])
        sent = len(client.all("response.output_audio.delta"))
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert not client.all("conversation.item.truncated")  # only the client knows
        await client.do("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=620)
        assert client.all("conversation.item.truncated")[0]["audio_end_ms"] == 620
        await client.append(1.0)
        await client.append(0.6, loud=False)
        second = (await client.event("response.done", 2))["response"]["id"]
        assert len(client.all("response.output_audio.delta")) == sent + len(
            [event for event in client.all("response.output_audio.delta") if event["response_id"] == second]
        )
    assert answers.asked[1][2] == Said("assistant", "One two three. One two three.")
    assert not client.errors


async def test_a_client_that_truncates_wants_no_more_of_it() -> None:
    """Though it did not cancel."""
    async with Client(Answers("One two three. " * 40)) as client:
        await client.say("Count.")
        await client.event("response.output_audio.delta", 12)  # 1.2 s
        item = client.all("response.output_item.added")[0]["item"]["id"]
        await client.do("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=100)
        assert client.all("response.done")[0]["response"]["status"] == "cancelled"
        await client.do("conversation.item.retrieve", item_id=item)
        assert client.all("conversation.item.retrieved")[0]["item"]["content"][0]["transcript"] == "One"


async def test_sound_in_one_event_is_listened_to_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop turns meanwhile, and what comes behind it waits."""
    monkeypatch.setattr("voxrtc.chat.socket.FASTEST", 200.0)
    async with Client() as client:
        turns, order = 0, list[str]()

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.ensure_future(turn())
        await client.append(20.0)
        turning.cancel()
        await client.do("input_audio_buffer.commit")
        order = [event["type"] for event in client.events]
        (sound,) = client.hearing.sound.values()
    assert turns > 20
    assert order.index("input_audio_buffer.speech_started") < order.index("input_audio_buffer.committed")
    assert len(sound) / 32_000 == pytest.approx(20, abs=0.05)


async def test_mistakes_are_told_and_the_session_lives_on() -> None:
    async with Client() as client:
        for text in ("{", "[]", '{"type":"nonsense"}', "x" * (MAX_EVENT + 1)):
            await ask(client.media, ClientEvent(call="a", text=text))
        await client.do("input_audio_buffer.append", audio="?")
        assert [error["code"] for error in client.errors] == [
            "invalid_json",
            "invalid_event",
            "invalid_value",
            "event_too_large",
            "invalid_value",
        ]
        await client.say("still here")
        await client.event("response.done")


async def test_sessions_have_places_with_calls_and_leave_them() -> None:
    client = Client(max_peers=1)
    assert await client.open("a", {"model": "tone"}) == Opened(call="a")
    refused = await client.open("b")
    assert isinstance(refused, Refused)
    assert (refused.status, refused.code) == (503, "too_many_calls")
    assert (await stats(client.media)).peers == 1
    assert await ask(client.media, HangUp(call="a")) == HungUp(call="a", known=True)
    assert await ask(client.media, ClientEvent(call="a", text="{}")) == Taken(call="a", known=False)
    assert isinstance(await client.open("b"), Opened)
    await client.media.close()
    assert not client.media._talks


async def test_an_unknown_model_is_refused_with_the_choices() -> None:
    refused = await Client().open("a", {"model": "parrot"})
    assert isinstance(refused, Refused)
    assert (refused.status, refused.code) == (400, "model_not_found")
    assert "tone" in refused.message


async def test_leaving_cancels() -> None:
    async with Client(speed=1.0) as client:
        await client.say(LONG)
        await client.event("response.output_audio.delta")
        await ask(client.media, HangUp(call="a"))
        await until(lambda: [each for each in client.tone.requests if isinstance(each, Cancel)])
        assert not client.media._talks


# --- over ZeroMQ, as the web process has it ---


async def test_the_web_process_has_a_session_until_the_media_process_dies(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/media"
    media = MediaServer(tones(ToneTransport()), Hearing(), lambda: None, Settings())
    serving = asyncio.ensure_future(serve(media, address))
    client = MediaClient(address)
    await asyncio.wait_for(client.ready(), PATIENCE)
    told: list[str | None] = []
    await client.open("a", {"model": "tone"}, told.append)
    content = [{"type": "input_text", "text": "one two"}]
    item = {"type": "message", "role": "user", "content": content}
    await client.say("a", json.dumps({"type": "conversation.item.create", "item": item}))
    await client.say("a", json.dumps({"type": "response.create"}))
    await until(lambda: any(text and "response.done" in text for text in told))
    types = [json.loads(text)["type"] for text in told if text]
    assert types[0] == "session.created"
    assert "response.output_audio.delta" in types
    with pytest.raises(CallRefused) as refusal:
        await client.open("b", {"model": "parrot"}, told.append)
    assert refusal.value.code == "model_not_found"
    with pytest.raises(CallRefused):
        await client.say("b", "{}")
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await until(lambda: told[-1] is None)
    with pytest.raises(CallRefused) as refusal:
        await client.say("a", "{}")
    assert refusal.value.code == "media_lost"
    await client.close()
    await media.close()
