"""Sessions that speak in the voice of a recording, and lose it."""

from __future__ import annotations

import msgspec

from tests.chat.stage import LONG, Stage, until
from tests.chat.test_media import ask, server
from tests.fake_engine import TONE_MODEL, ToneTransport
from tests.rtc.browser import Browser
from voxrtc.messages.engine import ForgetVoice, Generate, Reference
from voxrtc.messages.media import (
    Answer,
    DropVoice,
    GetVoices,
    KeepVoice,
    Noted,
    Offer,
    Refused,
    Transcribe,
    Transcribed,
    VoicesUsed,
)

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
    for voice, reference in ((MINE, ME), (THEIRS, THEM)):
        assert await ask(media, KeepVoice(call=voice, reference=reference)) == Noted(call=voice)
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
