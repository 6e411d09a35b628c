"""Calls of a media process that is to end: told so, played to the end of what is said, and over."""

from __future__ import annotations

import asyncio

import pytest

from tests.chat.test_media import ask, server, stats
from tests.chat.test_socket import Client
from tests.fake_engine import ToneTransport
from tests.rtc.browser import Browser
from tests.rtc.sounds import lasts
from voxrtc.chat.media import MediaServer
from voxrtc.messages.media import Answer, Drain, Noted, Offer


async def called(media: MediaServer, name: str) -> Browser:
    browser = Browser()
    answer = await ask(media, Offer(call=name, sdp=await browser.offer()))
    assert isinstance(answer, Answer)
    await browser.accept(answer.sdp)
    await browser.event("session.created")
    return browser


async def test_a_response_is_played_out_and_a_silent_call_ends_at_once() -> None:
    media = server(ToneTransport(speed=5.0))
    speaking, silent = await called(media, "a"), await called(media, "b")
    speaking.say("one two three four five six seven eight nine ten")
    await speaking.event("output_audio_buffer.started")
    draining = asyncio.create_task(ask(media, Drain(call="drain", seconds=20)))
    assert (await speaking.event("voxrtc.ending"))["seconds"] == 20
    assert (await silent.event("error"))["error"]["code"] == "shutting_down"
    assert not [event for event in speaking.events if event["type"] == "error"]
    assert await draining == Noted(call="drain")
    types = [event["type"] for event in speaking.events]
    assert types.index("output_audio_buffer.stopped") < types.index("error")
    assert lasts(speaking.sound) == pytest.approx(1.0, abs=0.1)
    assert (await stats(media)).talking == []
    for browser in (speaking, silent):
        await browser.close()


async def test_what_does_not_end_is_ended() -> None:
    async with Client(speed=1.0) as client:
        await client.say("word " * 100)
        await client.event("response.output_audio.delta")
        assert await ask(client.media, Drain(call="drain", seconds=0.1)) == Noted(call="drain")
        assert [error["code"] for error in client.errors] == ["shutting_down"]
        assert (await stats(client.media)).talking == []
