"""The media process and lines that come and go: tunnels, calls, and one in place of another."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from tests.chat.test_media import ask, server, stats
from tests.rtc.browser import Browser
from tests.rtc.sounds import audible, decode, packets, peak_hertz, tone
from tests.waiting import until
from voxrtc.chat import talk as module
from voxrtc.chat.server import MediaServer
from voxrtc.messages.media import (
    Answer,
    ClientEvent,
    ClientPacket,
    Closed,
    Dig,
    HangUp,
    Lost,
    MediaReply,
    Offer,
    Opened,
    Over,
    Refused,
    Resume,
    ServerEvent,
    ServerPacket,
)
from voxrtc.rtc.opus import SILENCE
from voxrtc.rtc.sound import FRAME, RATE, TICKS
from voxrtc.rtc.tunnel import NUMBER, RENDERED, SOUND, UPWARDS

pytestmark = pytest.mark.anyio


class Client:
    """The browser's end of a tunnel, that renders what it gets at once."""

    def __init__(self, media: MediaServer, call: str) -> None:
        self.media, self.call = media, call
        self.events: list[dict[str, Any]] = []
        self.packets: dict[int, bytes] = {}
        self.closed = self.over = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def dig(self, resume: Resume | None = None) -> MediaReply | None:
        return await self.media.handle(Dig(call=self.call, resume=resume), self.take)

    def take(self, reply: MediaReply) -> None:
        match reply:
            case ServerEvent(text=text):
                self.events.append(json.loads(text))
            case ServerPacket(data=data):
                (number,) = NUMBER.unpack_from(data)
                self.packets[number] = data[NUMBER.size :]
                self.send(UPWARDS.pack(RENDERED, number))
            case Closed():
                self.closed = True
            case Over():
                self.over = True

    def send(self, data: bytes) -> None:
        task = asyncio.ensure_future(self.media.handle(ClientPacket(call=self.call, data=data), self.take))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def do(self, type: str, **fields: Any) -> None:
        reply = await ask(self.media, ClientEvent(call=self.call, text=json.dumps({"type": type, **fields})))
        assert reply and reply.known  # type: ignore[union-attr]

    async def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        await self.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.do("response.create")

    async def event(self, type: str) -> dict[str, Any]:
        return (await until(lambda: [event for event in self.events if event["type"] == type]))[0]

    @property
    def sound(self) -> np.ndarray:
        return decode([self.packets[number] or SILENCE for number in sorted(self.packets)])


async def test_a_tunnel_from_its_first_word_to_its_hang_up() -> None:
    media = server()
    client = Client(media, "a")
    assert isinstance(await client.dig(Resume()), Opened)
    assert (await client.event("session.created"))["session"]["model"] == "tone"
    await client.say("one two three four five")
    await client.event("output_audio_buffer.stopped")
    assert peak_hertz(client.sound[audible(client.sound)[0] :][: 20 * FRAME]) == pytest.approx(440, abs=5)
    assert (await stats(media)).peers == 1
    await ask(media, HangUp(call="a"))
    assert (await stats(media)).peers == 0 and client.closed and client.over


async def test_a_microphone_comes_through_a_tunnel() -> None:
    media = server()
    client = Client(media, "a")
    await client.dig(Resume())
    for number, packet in enumerate(packets(tone(0.4, RATE))):
        client.send(UPWARDS.pack(SOUND, number * TICKS) + packet.payload)
    await asyncio.sleep(0)
    await client.do("voxrtc.ping")
    assert (await client.event("voxrtc.pong"))["packets"] == 20
    client.send(b"\x09nonsense")
    assert (await client.event("error"))["error"]["code"] == "invalid_packet"
    await media.close()


async def test_a_tunnel_that_breaks_is_taken_up_by_another() -> None:
    media = server()
    first, second = Client(media, "a"), Client(media, "b")
    await first.dig(Resume())
    about = await first.event("voxrtc.session")
    await first.say("one two three four five six")
    await first.event("output_audio_buffer.started")
    heard = max(first.packets)
    await ask(media, Lost(call="a"))
    assert (await stats(media)).peers == 0 and first.closed and not first.over
    received = len(first.events) - 1
    assert isinstance(await second.dig(Resume(about["token"], received, about["line"], heard)), Opened)
    await second.event("output_audio_buffer.stopped")
    assert min(second.packets) > heard
    whole = {**{number: data for number, data in first.packets.items() if number <= heard}, **second.packets}
    loud = audible(decode([whole[number] or SILENCE for number in sorted(whole)]))
    assert len(loud) / RATE == pytest.approx(0.6, abs=0.05)
    assert (await stats(media)).underruns == 0
    await media.close()


async def test_a_call_takes_a_tunnel_over_and_the_other_way_round() -> None:
    media, browser = server(), Browser()
    answer = await ask(media, Offer(call="a", sdp=await browser.offer(), resume=Resume()))
    assert isinstance(answer, Answer) and answer.token
    await browser.accept(answer.sdp)
    tunnel = Client(media, "b")
    await tunnel.dig(Resume(answer.token))
    await tunnel.event("voxrtc.session")
    assert (await stats(media)).peers == 1
    other = Browser()
    again = await ask(media, Offer(call="c", sdp=await other.offer(), resume=Resume(answer.token)))
    assert isinstance(again, Answer)
    await tunnel.say("spoken over whatever line there is")
    await other.accept(again.sdp)
    await other.event("output_audio_buffer.stopped")
    assert tunnel.closed and len(audible(other.sound)) / RATE > 0.3
    for each in (browser, other):
        await each.close()
    await media.close()


async def test_who_comes_back_again_and_again_takes_no_more_for_it() -> None:
    media, browser, other, told = server(max_peers=1), Browser(), Browser(), list[MediaReply]()
    answer = await media.handle(Offer(call="first", sdp=await browser.offer(), resume=Resume()), told.append)
    assert isinstance(answer, Answer)
    await browser.accept(answer.sdp)
    await browser.event("session.created")
    before, sdp = len(asyncio.all_tasks()), await other.offer()
    for number in range(12):
        offer = Offer(call=f"offer {number}", sdp=sdp, resume=Resume(answer.token))
        assert isinstance(await media.handle(offer, told.append), Answer)
    await until(lambda: len(asyncio.all_tasks()) <= before + 4 * 6)
    assert list(media._talks) == ["first", *(f"offer {number}" for number in range(7, 12))]
    assert [reply.call for reply in told if isinstance(reply, Over)] == [f"offer {number}" for number in range(7)]
    assert (await stats(media)).peers == 1
    for number in range(12):
        tunnel = Client(media, f"tunnel {number}")
        assert isinstance(await tunnel.dig(Resume(answer.token)), Opened)
    await until(lambda: list(media._tunnels) == ["tunnel 11"])
    assert len(media._talks) <= 1 + 2 * module.COMING + 1 and len(media._tell) == len(media._talks)
    await tunnel.say("still here")
    await tunnel.event("output_audio_buffer.stopped")
    assert (await ask(media, HangUp(call="first"))).known  # type: ignore[union-attr]
    assert not (media._talks or media._tell or media._tunnels)
    for each in (browser, other):
        await each.close()


async def test_a_token_that_nobody_has_is_refused() -> None:
    media = server()
    refused = await Client(media, "a").dig(Resume("guésséd"))
    assert isinstance(refused, Refused) and (refused.status, refused.code) == (404, "session_gone")
    client = Client(media, "b")
    await client.dig(None)  # one that cannot come back: its token is none that anybody could show
    await client.event("session.created")
    assert isinstance(await Client(media, "c").dig(Resume("")), Opened)
    assert (await stats(media)).peers == 2
    await media.close()


async def test_who_may_come_back_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """'Too many users' after stop and start (fastrtc 53): a place that nobody is at is given to who comes."""
    media = server(max_peers=1)
    gone, new = Client(media, "a"), Client(media, "b")
    await gone.dig(Resume())
    about = await gone.event("voxrtc.session")
    assert isinstance(await new.dig(Resume()), Refused)
    await ask(media, Lost(call="a"))
    assert isinstance(await new.dig(Resume()), Opened)
    assert gone.over
    assert isinstance(await Client(media, "c").dig(Resume(about["token"])), Refused)
    monkeypatch.setattr(module, "KEPT", 0.01)
    await ask(media, Lost(call="b"))
    await until(lambda: new.over and not media._talks)
