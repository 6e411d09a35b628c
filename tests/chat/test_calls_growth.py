"""Calls come and go in every way that a line knows, and nothing is left of them."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

from tests.chat.test_growth import kinds
from tests.chat.test_media import ask, server
from tests.fake_engine import ToneTransport
from tests.rtc.browser import Browser, own_words
from tests.waiting import until
from voxrtc.chat.media import MediaServer
from voxrtc.messages.media import (
    Answer,
    ClientEvent,
    ClientPacket,
    Dig,
    HangUp,
    Lost,
    MediaReply,
    Offer,
    Open,
    Opened,
    Refused,
    Resume,
    ServerEvent,
    ServerPacket,
)
from voxrtc.rtc.tunnel import NUMBER, RENDERED, UPWARDS

CALLS = 2  # of each kind in a round
SAY = json.dumps(own_words("one two three"))


async def webrtc(media: MediaServer, call: str, hangs_up: bool) -> None:
    """Amid its sound it is hung up, or its client leaves."""
    browser = Browser()
    answer = await ask(media, Offer(call=call, sdp=await browser.offer()))
    assert isinstance(answer, Answer)
    await browser.accept(answer.sdp)
    browser.channel.send(SAY)
    await browser.event("output_audio_buffer.started")
    if hangs_up:
        await ask(media, HangUp(call=call))
    await browser.close()


async def never_connects(media: MediaServer, call: str) -> None:
    browser = Browser()
    sdp = await browser.offer()
    assert isinstance(await ask(media, Offer(call=call, sdp=sdp.replace("opus", "sopu"))), Refused)
    assert isinstance(await ask(media, Offer(call=call, sdp=sdp)), Answer)
    await ask(media, HangUp(call=call))
    await browser.close()


async def over_a_web_socket(media: MediaServer, call: str, hangs_up: bool) -> None:
    """A tunnel that is lost and one that takes its session over, or a Realtime socket."""
    replies: list[MediaReply] = []
    begin = Open(call=call) if hangs_up else Dig(call=call, resume=Resume())
    assert isinstance(await media.handle(begin, replies.append), Opened)
    await media.handle(ClientEvent(call=call, text=SAY), replies.append)
    if hangs_up:
        await until(lambda: any("output_audio.delta" in each.text for each in replies if isinstance(each, ServerEvent)))
        await media.handle(HangUp(call=call), replies.append)
        return
    await until(lambda: any(isinstance(each, ServerPacket) for each in replies))
    packet = next(each for each in replies if isinstance(each, ServerPacket))
    await media.handle(ClientPacket(call=call, data=UPWARDS.pack(RENDERED, *NUMBER.unpack_from(packet.data))), replies.append)
    events = [json.loads(each.text) for each in replies if isinstance(each, ServerEvent)]
    token = next(event["token"] for event in events if event["type"] == "voxrtc.session")
    await media.handle(Lost(call=call), replies.append)
    again = Dig(call=f"{call} again", resume=Resume(token, received=1, line=call))
    assert isinstance(await media.handle(again, replies.append), Opened)
    await media.handle(HangUp(call=again.call), replies.append)


async def test_call_after_call_nothing_grows() -> None:
    tone = ToneTransport(4.0)
    media, counts = server(tone), []
    for round in range(3):
        for number in range(CALLS):
            call = f"{round} {number}"
            await webrtc(media, f"rtc {call}", hangs_up=number % 2 == 0)
            await never_connects(media, f"never {call}")
            for hangs_up in (True, False):
                await over_a_web_socket(media, f"socket {call} {hangs_up}", hangs_up)
        await until(lambda: not media._all)
        assert not (media._talks or media._tell or media._tunnels)
        await asyncio.sleep(0.05)  # what the loop still holds of them
        for kept in (tone.requests, tone.tasks, tone.texts):
            kept.clear()
        counts.append(kinds())
    grown = [
        {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind] >= CALLS}
        for before, after in pairwise(counts)
    ]
    assert not set.intersection(*map(set, grown)), grown
