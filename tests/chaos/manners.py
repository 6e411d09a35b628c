"""How people come, hear the beginning of a sentence, and go: all ways there are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
from websockets.asyncio.client import connect

from tests.chaos.people import Person
from tests.rtc.browser import SDP, Mouth, own_words
from tests.speech import recorded
from voxrtc.rtc.tunnel import NUMBER, RENDERED, UPWARDS

HEARD = 0.3  # seconds of sound, after which they go
SPOKEN = 1.5  # seconds that one speaks who is written down
SENTENCES = (
    "Yes, of course.",
    "That is a good idea, and I am glad that you had it.",
    "It rained all day, so we stayed at home and read.",
    "Nobody knows where the old key has gone.",
)


@dataclass(frozen=True)
class Caller:
    """One who comes."""

    http: httpx.AsyncClient
    rng: random.Random

    @property
    def sentence(self) -> str:
        return self.rng.choice(SENTENCES)

    async def listens(self) -> tuple[Person, str]:
        """In a call, in which the first of a sentence was heard."""
        person = Person()
        where = await person.call(self.http)
        await _hears(person, self.sentence)
        return person, where

    def socket(self, path: str) -> connect:
        return connect(f"ws{str(self.http.base_url).removeprefix('http').rstrip('/')}{path}")


async def _hears(person: Person, sentence: str) -> None:
    person.have_said(sentence)
    await person.until("output_audio_buffer.started")
    await asyncio.sleep(HEARD)


async def hangs_up(caller: Caller) -> None:
    person, where = await caller.listens()
    assert (await caller.http.delete(where)).status_code == 204
    await person.close()


async def leaves(caller: Caller) -> None:
    """The page is closed."""
    person, _ = await caller.listens()
    await person.close()


async def breaks_in_and_leaves(caller: Caller) -> None:
    person, _ = await caller.listens()
    person.send("output_audio_buffer.clear")
    await person.until("voxrtc.playout")
    await _hears(person, caller.sentence)
    await person.close()


async def closes_the_channel_first(caller: Caller) -> None:
    person, _ = await caller.listens()
    person.channel.close()
    await asyncio.sleep(0.1)
    await person.close()


async def vanishes(caller: Caller) -> None:
    person, _ = await caller.listens()
    person.vanish()
    await person.close()


async def vanishes_while_it_waits(caller: Caller) -> None:
    """Before the first sound."""
    person = Person()
    await person.call(caller.http)
    person.have_said(caller.sentence)
    await person.until("response.created")
    person.vanish()
    await person.close()


async def leaves_amid_negotiation(caller: Caller) -> None:
    """The answer comes to nobody."""
    person = Person()
    assert (await person.ask(caller.http)).status_code == 201
    await person.close()


async def leaves_before_the_answer(caller: Caller) -> None:
    person = Person()
    offer = await person.offer()
    _, writer = await asyncio.open_connection("127.0.0.1", caller.http.base_url.port)
    head = f"POST /v1/realtime/calls HTTP/1.1\r\nHost: voxrtc\r\nContent-Type: application/sdp\r\nContent-Length: {len(offer)}"
    writer.write(f"{head}\r\n\r\n{offer}".encode())
    await writer.drain()
    await asyncio.sleep(caller.rng.uniform(0.0, 0.02))
    writer.transport.abort()
    await person.close()


async def calls_with_nonsense(caller: Caller) -> None:
    person = Person()
    offer = (await person.offer()).replace("opus", "sopu")
    assert (await caller.http.post("/v1/realtime/calls", content=offer, headers=SDP)).status_code == 400
    await person.close()


async def comes_back(caller: Caller) -> None:
    """Its line breaks, another one takes the session over, and that one is hung up."""
    first, second = Person(), Person()
    answer = await _asks(caller, first, {})
    await first.accept(answer.text)
    await _hears(first, SENTENCES[1])
    first.vanish()
    token, line = answer.headers["voxrtc-session"], answer.headers["location"].rpartition("/")[2]
    answer = await _asks(caller, second, {"token": token, "received": sum(first.counts.values()), "line": line})
    await second.accept(answer.text)
    await asyncio.sleep(HEARD)
    await caller.http.delete(answer.headers["location"])
    await first.close()
    await second.close()


async def could_come_back(caller: Caller) -> None:
    """And does not: its session is kept for a while."""
    person = Person()
    answer = await _asks(caller, person, {})
    await person.accept(answer.text)
    await _hears(person, caller.sentence)
    person.vanish()
    await person.close()


async def _asks(caller: Caller, person: Person, resume: dict[str, Any]) -> httpx.Response:
    answer = await caller.http.post("/v1/realtime/calls", json={"sdp": await person.offer(), "resume": resume})
    assert answer.status_code == 201, answer.text
    return answer


async def speaks_and_vanishes(caller: Caller) -> None:
    """Amid what is being written down."""
    person, mouth = Person("sendrecv"), Mouth()
    person._sender.replaceTrack(mouth)
    await person.call(caller.http)
    mouth.say(recorded("boat"))
    await person.until("input_audio_buffer.speech_started")
    await asyncio.sleep(caller.rng.uniform(0.1, SPOKEN))
    person.vanish()
    mouth.stop()
    await person.close()


async def is_answered_and_leaves(caller: Caller) -> None:
    """By the chat model, amid whose reply it leaves."""
    person = Person()
    await person.call(caller.http)
    person.say("What can one do in the garden in spring?")
    await person.until("output_audio_buffer.started")
    await asyncio.sleep(HEARD)
    await person.close()


async def tunnels(caller: Caller) -> None:
    """Without UDP. Some hang up, others' sockets break, of which some may come back and do not."""
    async with caller.socket("/v1/voxrtc/tunnel") as socket:
        await socket.send(json.dumps({"session": {}} | ({"resume": {}} if caller.rng.random() < 0.3 else {})))
        await socket.send(json.dumps(own_words(caller.sentence)))
        packets = 0
        async for message in socket:
            if isinstance(message, bytes) and len(message) > NUMBER.size + 3:
                packets += 1
                await socket.send(UPWARDS.pack(RENDERED, *NUMBER.unpack_from(message)))
            if packets > 50 * HEARD:
                break
        if caller.rng.random() < 0.5:
            socket.transport.abort()


async def talks_over_a_socket(caller: Caller) -> None:
    async with caller.socket("/v1/realtime?model=lark") as socket:
        await socket.send(json.dumps(own_words(caller.sentence)))
        async for message in socket:
            if json.loads(message)["type"] == "response.output_audio.delta":
                break
        if caller.rng.random() < 0.5:
            socket.transport.abort()


async def closes_the_stream(caller: Caller) -> None:
    """Of `/v1/audio/speech`, at the first sound, in one of the formats."""
    kind = caller.rng.choice(["pcm", "wav", "opus", "mp3", "flac", "aac"])
    body = {"input": caller.sentence, "response_format": kind}
    async with caller.http.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.status_code == 200
        async for _ in answer.aiter_raw():
            break


async def looks_on(caller: Caller) -> None:
    """At the dashboard's feed."""
    async with caller.http.stream("GET", "/v1/voxrtc/live") as answer:
        with contextlib.suppress(httpx.ReadTimeout):
            async for _ in answer.aiter_raw():
                break


Manner = Callable[[Caller], Awaitable[None]]
MANNERS: tuple[Manner, ...] = (
    hangs_up,
    leaves,
    breaks_in_and_leaves,
    closes_the_channel_first,
    vanishes,
    vanishes_while_it_waits,
    leaves_amid_negotiation,
    leaves_before_the_answer,
    calls_with_nonsense,
    comes_back,
    could_come_back,
    speaks_and_vanishes,
    is_answered_and_leaves,
    tunnels,
    talks_over_a_socket,
    closes_the_stream,
    looks_on,
)
