"""A session whose model hears and answers by itself: a real engine with a tiny model, a real track, no browser."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from tests.chat.stage import Stage, until
from tests.chat.test_socket import Client, loud_is_speech, quick
from tests.fake_chat import Answers
from tests.fake_engine import ToneTransport, tones
from tests.talking_engine import TalkingTransport
from voxrtc.chat.ear import BATCH
from voxrtc.chat.media import MediaServer
from voxrtc.chat.reply import Replier, Said
from voxrtc.messages.conversation import Forget, Heard, Replied, Words
from voxrtc.messages.engine import Generate
from voxrtc.rtc.sound import RATE
from voxrtc.settings import Settings

__all__ = ["loud_is_speech", "quick"]  # fixtures
SYSTEM = Words(role="system", text="Be brief.")


class TalkerStage(Stage):
    """Its model hears; a tone that only reads out is there, too."""

    def __init__(self, replier: Replier | None = None) -> None:
        self.talker = TalkingTransport()
        super().__init__(replier=replier, transports=[self.talker, ToneTransport()])
        self.hearing.answer = None  # nobody has to wait for words

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        await self.talker.close()

    def turn(self, seconds: float = 1.0) -> None:
        self.hear(0.5, speech=False)
        self.hear(seconds)
        self.hear(0.6, speech=False)

    def choose(self, model: str) -> None:
        self.do("session.update", session={"type": "realtime", "model": model})

    @property
    def turns(self) -> list[Any]:
        """Those of the latest answer."""
        return list(self.talker.generated[-1].conversation)

    async def answered(self, number: int = 1, status: str = "completed") -> dict[str, Any]:
        """The `number`th response, when it is done."""
        event = await self.event("response.done", number)
        response: dict[str, Any] = event["response"]
        assert response["status"] == status
        return response


async def test_a_spoken_turn_is_answered_by_the_model_before_its_words_are_known() -> None:
    async with TalkerStage(Answers("Never asked.")) as stage:
        stage.turn()
        response = await stage.answered()
        await stage.event("output_audio_buffer.stopped")
        item = stage.all("input_audio_buffer.committed")[0]["item_id"]
        sound = b"".join(part.pcm for part in stage.talker.heard)
        assert stage.turns == [SYSTEM, Heard(hearing=stage.talker.heard[0].hearing)]
        assert sound == stage.hearing.sound[item] and len(sound) / 32_000 > 1.5, "the onset and what was before it, too"
        (asked,) = stage.talker.model.asked
        codes = asked.conversation[1].sound.codes
        assert len(codes) == pytest.approx(5 * len(sound) / 32_000, abs=1)
        deltas = "".join(event["delta"] for event in stage.all("response.output_audio_transcript.delta"))
        transcript = response["output"][0]["content"][0]["transcript"]
        assert response["status"] == "completed" and transcript.strip() and deltas.startswith(transcript)
        assert 0 < stage.all("voxrtc.heard")[-1]["characters"] <= len(deltas)
        assert stage.all("voxrtc.playout")[0]["played_ms"] > 100
        stage.hearing.readers[item].transcript("what I said")
        assert stage.all("conversation.item.input_audio_transcription.completed")[0]["transcript"] == "what I said"
        assert len(stage.talker.generated) == 1, "and that is not answered again"


async def test_sound_is_on_its_way_while_the_person_speaks_and_forgotten_where_it_was_no_turn() -> None:
    async with TalkerStage() as stage:
        stage.hear(0.5, speech=False)
        stage.hear(1.0)
        heard = stage.talker.heard
        assert heard[0].first and not any(part.final for part in heard)
        assert sum(len(part.pcm) for part in heard) > 32_000 * 1.2 - BATCH
        stage.do("input_audio_buffer.clear")
        assert stage.talker.requests[-1] == Forget(hearing=heard[0].hearing)
        stage.turn()
        await stage.answered()
        assert len(stage.turns) == 2 and stage.turns[1].hearing != heard[0].hearing


async def test_the_second_turn_carries_the_first_and_what_was_answered() -> None:
    async with TalkerStage() as stage:
        stage.turn()
        await stage.answered()
        await stage.event("output_audio_buffer.stopped")
        first = stage.turns[1]
        stage.hearing.readers[stage.all("input_audio_buffer.committed")[0]["item_id"]].transcript("hello")
        stage.turn(0.5)
        await stage.answered(2)
        system, past, reply, now = stage.turns
        frames = np.frombuffer(reply.frames, "<i4").reshape(-1, 2)
        assert (system, past) == (SYSTEM, Heard(hearing=first.hearing, text="hello")) and now.hearing != first.hearing
        assert 0 < reply.heard <= 0.02 * (frames[:, 1] != 63).sum() + 0.001
        said = stage.talker.model.asked[-1].conversation
        assert [turn.role for turn in said] == ["system", "user", "assistant", "user"]
        assert (
            said[1].sound.codes
            and said[2].frames is not None
            and said[2].frames.tolist() == frames[: len(said[2].frames)].tolist()
        )
        stage.item("And typed.")
        stage.do("response.create")
        await stage.answered(3)
        assert stage.turns[-1] == Words(role="user", text="And typed.") and len(stage.turns) == 6


class SlowStage(TalkerStage):
    """Plays only as much as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._packets = asyncio.Semaphore(0)

    async def _play(self) -> None:
        with contextlib.suppress(Exception):
            while True:
                await self._packets.acquire()
                await self.track.recv()

    async def play(self, seconds: float) -> None:
        """So much of the sound, once there is any."""
        await until(lambda: self.track.clock)
        begun = self.track.clock
        assert begun
        while (clock := self.track.clock) and clock.played < begun.played + seconds:
            self._packets.release()
            await asyncio.sleep(0)


async def test_an_interruption_cancels_at_once_and_history_is_cut_to_what_was_heard() -> None:
    async with SlowStage() as stage:
        stage.turn(2.0)
        await until(lambda: stage.track.clock and stage.track.clock.waiting > RATE // 2)
        await stage.play(0.3)
        stage.hear(1.0)
        await stage.event("output_audio_buffer.cleared")
        played = stage.all("voxrtc.playout")[0]["played_ms"] / 1000
        assert 0.3 <= played < 0.6
        stage.hear(0.6, speech=False)
        await stage.answered(2)
        reply = stage.turns[2]
        assert isinstance(reply, Replied) and reply.heard == pytest.approx(played)
        kept = stage.talker.model.asked[-1].conversation[2].frames
        assert kept is not None and sum(kept[:, 1] != 63) == pytest.approx(played * 50, abs=1)
        transcript = stage.all("conversation.item.truncated")
        assert transcript and not stage.errors


async def test_who_breaks_in_while_the_model_still_speaks_ends_its_stream() -> None:
    gate, frames = threading.Event(), itertools.count()
    async with SlowStage() as stage:
        sample = stage.talker.model.sample

        def slow(*args: Any) -> Any:
            assert next(frames) < 45 or gate.wait(30)
            return sample(*args)

        stage.talker.model.sample = slow  # type: ignore[method-assign]
        stage.item("A long story, please.")
        stage.do("response.create")
        await until(lambda: stage.track.clock)
        stage.hear(1.0)
        response = await stage.answered(status="cancelled")
        assert response["status_details"]["reason"] == "turn_detected" and stage.all("output_audio_buffer.cleared")
        assert stage.talker.cancelled == [response["id"]]
        gate.set()
        await until(lambda: not stage.talker.engine.streams)
        assert stage.talker.engine.worker.cache.used == 0 and next(frames) <= 47, "one more step at most"


async def test_a_model_that_answers_reads_nothing_out_and_says_what_to_do() -> None:
    async with TalkerStage() as stage:
        content = [{"type": "output_text", "text": "Read this."}]
        stage.do("response.create", response={"input": [{"type": "message", "role": "assistant", "content": content}]})
        stage.do("response.create", response={"output_modalities": ["text"]})
        assert [error["code"] for error in stage.errors] == ["cannot_read_out", "invalid_value"]
        assert "text-to-speech" in stage.errors[0]["message"]
        question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Who."}]}
        stage.do("response.create", response={"conversation": "none", "input": [question], "instructions": ""})
        await stage.answered()
        assert stage.turns == [Words(role="user", text="Who.")]
        stage.item("And you.")
        stage.do("response.create")
        await stage.answered(2)
        assert stage.turns == [SYSTEM, Words(role="user", text="And you.")], "what is out of band stays out"


async def test_models_change_within_a_session_and_keep_its_history_in_words() -> None:
    answers = Answers("One two.", "Three.")
    async with TalkerStage(answers) as stage:
        stage.turn()
        await stage.answered()
        await stage.event("output_audio_buffer.stopped")
        stage.hearing.readers[stage.all("input_audio_buffer.committed")[0]["item_id"]].transcript("hello")
        stage.do("conversation.item.retrieve", item_id=stage.all("response.done")[0]["response"]["output"][0]["id"])
        reply = stage.all("conversation.item.retrieved")[0]["item"]["content"][0]["transcript"]
        stage.choose("tone")
        assert [stage.all(f"session.{word}")[0]["session"]["voxrtc"]["answers"] for word in ("created", "updated")] == [
            "itself",
            "replier",
        ]
        stage.hearing.answer = "what now"
        stage.turn()
        await stage.answered(2)
        await stage.event("output_audio_buffer.stopped", 2)
        assert answers.asked[0][1:] == [Said("user", "hello"), Said("assistant", reply), Said("user", "what now")]
        stage.hearing.answer = None
        stage.choose("talker")
        stage.turn()
        await stage.answered(3)
        _, first, framed, second, spoken, third = stage.turns
        assert isinstance(first, Heard) and isinstance(framed, Replied) and isinstance(third, Heard)
        assert [second, spoken] == [Words(role="user", text="what now"), Words(role="assistant", text="One two.")]


async def test_what_was_said_before_the_model_was_chosen_is_answered_by_its_words() -> None:
    async with TalkerStage() as stage:
        stage.choose("tone")
        stage.turn()
        item = stage.all("input_audio_buffer.committed")[0]["item_id"]
        stage.choose("talker")
        stage.do("response.create")
        await stage.event("response.created")
        assert not stage.talker.generated
        stage.hearing.readers[item].transcript("hello")
        await stage.answered()
        assert stage.turns == [SYSTEM, Words(role="user", text="hello")]


async def test_the_client_may_commit_and_ask_itself_and_delete() -> None:
    async with TalkerStage() as stage:
        stage.do("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        stage.hear(1.0)
        stage.do("input_audio_buffer.commit")
        assert not stage.talker.generated
        stage.do("response.create")
        await stage.answered()
        assert isinstance(stage.turns[1], Heard)
        hearing = stage.turns[1].hearing
        stage.do("conversation.item.delete", item_id=stage.all("input_audio_buffer.committed")[0]["item_id"])
        assert Forget(hearing=hearing) in stage.talker.requests


async def test_a_failing_ear_is_told_and_the_session_goes_on() -> None:
    async with TalkerStage() as stage:

        def broken(*_: object) -> None:
            raise RuntimeError("an ear that breaks")

        hear, stage.talker.model.hear = stage.talker.model.hear, broken  # type: ignore[method-assign]
        stage.turn()
        await stage.answered(status="failed")
        assert stage.errors[0]["code"] == "engine_error"
        stage.talker.model.hear = hear  # type: ignore[method-assign]
        stage.turn()
        await stage.answered(2)
        assert len(stage.talker.model.asked[-1].conversation) == 2, "what nobody could hear is left out"


async def test_leaving_forgets_what_was_heard() -> None:
    async with TalkerStage() as stage:
        stage.turn()
        await stage.answered()
        stage.session.closed()
        await until(lambda: not len(stage.talker.engine._prompts.hearings))


# --- over a WebSocket ---


@pytest.fixture
async def client(loud_is_speech: None, quick: None) -> AsyncIterator[Client]:
    talker = TalkingTransport()
    client = Client()
    client.tone = talker  # type: ignore[assignment]
    client.media = MediaServer(tones(talker), client.hearing, lambda: None, Settings(instructions=SYSTEM.text))  # type: ignore[arg-type]
    async with client:
        yield client
    await talker.close()


async def test_a_session_over_a_socket_is_answered_and_says_itself_what_was_heard(client: Client) -> None:
    await client.append(0.5, loud=False)
    await client.append(2.0)
    await client.append(0.6, loud=False)
    done = (await client.event("response.done"))["response"]
    sound = client.audio(done["id"])
    assert len(sound) / 24_000 > 0.4 and done["output"][0]["content"][0]["transcript"].strip()
    item = done["output"][0]["id"]
    await client.do("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=200)
    await client.append(1.0)
    await client.append(0.6, loud=False)
    await client.event("response.done", 2)
    asked = [request for request in client.tone.requests if isinstance(request, Generate)][-1]
    assert asked.conversation[2] == Replied(frames=asked.conversation[2].frames, heard=0.2)  # type: ignore[union-attr]
    kept = client.tone.model.asked[-1].conversation[2].frames  # type: ignore[attr-defined]
    assert sum(kept[:, 1] != 63) == 10


async def test_a_sound_given_as_an_item_is_heard_too(client: Client) -> None:
    audio = base64.b64encode(np.full(24_000, 9_000, np.int16).tobytes()).decode()
    content = [{"type": "input_audio", "audio": audio}]
    await client.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    await client.do("response.create")
    await client.event("response.done")
    asked = [request for request in client.tone.requests if isinstance(request, Generate)][-1]
    assert [type(turn) for turn in asked.conversation] == [Words, Heard] and not client.errors
