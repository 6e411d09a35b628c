"""Sessions that speak in the voice of a recording, and lose it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from tests.chat.stage import LONG, Stage, until
from tests.chat.test_media import ask, server
from tests.engine.test_imitations import Mimic, reference
from tests.engine.toy import INFO
from tests.fake_engine import TONE_MODEL, ToneTransport
from tests.fake_hearing import Hearing
from tests.rtc.browser import Browser
from tests.waiting import PATIENCE
from voxrtc.chat.server import MediaServer
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.loop import Engine
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import EngineReply, EngineRequest, ForgetVoice, Generate, Reference
from voxrtc.messages.media import (
    Answer,
    ClientEvent,
    DropVoice,
    GetVoices,
    KeepVoice,
    Noted,
    Offer,
    Open,
    Opened,
    Refused,
    ServerEvent,
    Transcribe,
    Transcribed,
    VoicesUsed,
)
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings

MIMIC = msgspec.structs.replace(TONE_MODEL, name="mimic", clones=True)
MINE, THEIRS = f"voice_{'0' * 32}", f"voice_{'1' * 32}"
ME, THEM = (Reference(pcm=voice * 100, sample_rate=24_000) for voice in (b"ab", b"cd"))


def stage(speed: float = 0.0) -> Stage:
    stage = Stage(speed, [MIMIC])
    stage.recordings |= {MINE: ME, THEIRS: THEM}
    return stage


def use(stage: Stage, voice: object) -> None:
    stage.do("session.update", session={"type": "realtime", "audio": {"output": {"voice": voice}}})


async def test_every_response_has_the_recording_of_the_voice_that_was_chosen() -> None:
    async with stage() as s:
        use(s, {"id": MINE})
        for number in (1, 2):
            s.say("one")
            await s.event("response.done", number)
        s.item("one")
        s.do("response.create", response={"audio": {"output": {"voice": THEIRS}}})
        await s.event("response.done", 3)
        use(s, "default")
        s.say("one")
        await s.event("response.done", 4)
    assert [request.reference for request in s.generated()] == [ME, ME, THEM, None]
    told = [event["session"]["audio"]["output"]["voice"] for event in s.all("session.updated")]
    assert told == [MINE, "default"] and not s.errors


async def test_a_model_that_cannot_says_so_and_the_session_stays_as_it_was() -> None:
    async with Stage() as s:
        s.recordings[MINE] = ME
        use(s, MINE)
        s.say("one")
        await s.event("response.done")
    assert [error["code"] for error in s.errors] == ["voice_not_supported"] and s.generated()[0].voice == "default"


async def test_who_loses_a_voice_stops_speaking_with_it_and_goes_on_with_the_models_own() -> None:
    async with stage(speed=1.0) as s:
        use(s, MINE)
        s.say(LONG)
        await s.event("output_audio_buffer.started")
        del s.recordings[MINE]
        s.session.lose_voice(MINE)
        assert s.session.voice == "default"
        await until(lambda: s.cancelled() == [s.generated()[0].stream])
        done = await s.event("response.done")
        assert done["response"]["status"] == "cancelled"
        assert s.all("session.updated")[-1]["session"]["audio"]["output"]["voice"] == "default"
        s.do("output_audio_buffer.clear")
        s.say("one")
        await until(lambda: len(s.generated()) == 2)
    assert s.generated()[1].reference is None


async def test_anothers_loss_is_nobody_elses() -> None:
    async with stage() as s:
        use(s, MINE)
        s.session.lose_voice(THEIRS)
        s.say("one")
        await s.event("response.done")
    assert s.generated()[0].reference == ME and len(s.all("session.updated")) == 1


async def test_a_media_process_writes_down_or_says_why_not() -> None:
    media = server()
    words = await ask(media, Transcribe(call="1", pcm=b"ab" * 100))
    assert words == Transcribed(call="1", text="hello there")
    media._transcriber.lost = True  # type: ignore[attr-defined]
    lost = await ask(media, Transcribe(call="2", pcm=b"ab" * 100))
    assert lost == Transcribed(call="2", code="transcriber_lost", message="It is away.")


async def test_a_media_process_has_the_voices_that_it_was_told_of() -> None:
    tone, browser = ToneTransport(info=MIMIC), Browser()
    media = server(tone)
    session = {"audio": {"output": {"voice": {"id": MINE}}}}
    early = await ask(media, Offer(call="early", sdp=await browser.offer(), session=session))
    assert isinstance(early, Refused) and early.code == "voice_gone"
    for voice, sound in ((MINE, ME), (THEIRS, THEM)):
        assert await ask(media, KeepVoice(call=voice, reference=sound)) == Noted(call=voice)
    answer = await ask(media, Offer(call="a", sdp=await browser.offer(), session=session))
    assert isinstance(answer, Answer)
    await browser.accept(answer.sdp)
    await browser.event("session.created")
    browser.say("one")
    await browser.event("output_audio_buffer.stopped")
    assert await ask(media, GetVoices(call="v")) == VoicesUsed(call="v", voices=[MINE])

    assert await ask(media, DropVoice(call=MINE)) == Noted(call=MINE)
    assert (await browser.event("session.updated"))["session"]["audio"]["output"]["voice"] == "default"
    assert await ask(media, GetVoices(call="v")) == VoicesUsed(call="v", voices=[])
    asked = [request for request in tone.requests if isinstance(request, Generate | ForgetVoice)]
    assert isinstance(asked[0], Generate) and asked[0].reference == ME and asked[1:] == [ForgetVoice(digest=ME.digest)]
    await browser.close()
    await media.close()


class Here:
    """The way to an engine in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None:
        self._reply = partial(asyncio.get_running_loop().call_soon_threadsafe, on_reply)
        on_reply(Progress(state="ready", info=self._engine.info))

    def send(self, request: EngineRequest) -> None:
        self._engine.submit(request, self._reply)

    async def close(self) -> None: ...


async def test_from_a_recording_to_its_sound_and_to_its_end_with_an_engine() -> None:
    """It is heard once, spoken with twice, and nothing of it is left."""
    model = Mimic()
    engine = Engine(Worker(model, 4), msgspec.structs.replace(INFO, clones=True))
    engine.start()
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    media = MediaServer(Fleet({INFO.name: Here(engine)}), Hearing(), lambda: None, Settings())
    tell = lambda reply: told.put_nowait(json.loads(reply.text)) if isinstance(reply, ServerEvent) else None  # noqa: E731
    await media.handle(KeepVoice(call=MINE, reference=reference("x")), tell)
    session = {"audio": {"output": {"voice": {"id": MINE}}}}
    assert await media.handle(Open(call="a", session=session), tell) == Opened(call="a")
    for _ in range(2):
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}
        event = {"type": "response.create", "response": {"input": [item]}}
        await media.handle(ClientEvent(call="a", text=json.dumps(event)), tell)
        async with asyncio.timeout(PATIENCE):
            while (heard := await told.get())["type"] != "response.done":
                pass
        assert heard["response"]["status"] == "completed", heard
    assert len(model.heard) == 1 and list(engine._prompts._imitations._made) == [reference("x").digest]
    await media.handle(DropVoice(call=MINE), tell)
    await until(lambda: not engine._prompts._imitations._made)
    await media.close()
    engine.stop()
