"""Who listens, one utterance after another: over HTTP, in a WebRTC call."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx

from tests.chaos.streams import RATE, TEXTS, Stream, Way
from tests.rtc.browser import Deaf

PATIENCE = 60.0  # seconds for an utterance: what takes longer hangs
SILENT = 4.0  # seconds without a word of the server, after which a call is lost
PAUSE = (0.5, 2.0)  # seconds between two utterances
AGAIN = 0.5  # seconds until who has failed tries again


class Listener:
    """Keeps its streams. `live` goes on until it `stops`, which lets the present utterance end."""

    way: Way

    def __init__(self, http: httpx.AsyncClient, seed: int) -> None:
        self.streams: list[Stream] = []
        self._http, self._seed, self._rng = http, seed, random.Random(seed)
        self._over = asyncio.Event()

    async def live(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._over.set()

    @contextlib.asynccontextmanager
    async def _hearing(self, text: str = "") -> AsyncIterator[Stream]:
        """One that is asked for now, until it has ended."""
        self.streams.append(stream := Stream(self.way, text or self._rng.choice(TEXTS), time.monotonic()))
        try:
            async with asyncio.timeout(PATIENCE):
                yield stream
        except TimeoutError:
            stream.told = "hangs"
        finally:
            stream.ended = time.monotonic()

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def _between(self, stream: Stream) -> None:
        """Hear it out, and pause; or wait a moment, upon a failure."""
        left = max(0.0, stream.player.ends - time.monotonic()) if stream.player.chunks else 0.0
        await self._rest(AGAIN if stream.told else left + self._rng.uniform(*PAUSE))


class Download(Listener):
    """Over HTTP, in one of the two ways to stream."""

    def __init__(self, http: httpx.AsyncClient, seed: int, way: Way = "pcm") -> None:
        super().__init__(http, seed)
        self.way = way

    async def live(self) -> None:
        while not self._over.is_set():
            await self._between(await self.hear())

    async def hear(self, text: str = "") -> Stream:
        """One utterance."""
        async with self._hearing(text) as stream:
            try:
                await self._take(stream)
            except httpx.RemoteProtocolError:
                stream.told = stream.told or "cut"  # what a plain body can tell
            except httpx.TransportError as error:
                stream.told = f"unreachable: {type(error).__name__}"
        return stream

    async def _take(self, stream: Stream) -> None:
        wish = {"input": stream.text, "response_format": "pcm", "stream_format": "sse" if self.way == "sse" else "audio"}
        async with self._http.stream("POST", "/v1/audio/speech", json=wish) as answer:
            if answer.status_code != 200:
                stream.told = json.loads(await answer.aread())["error"]["code"]
                return
            stream.name = answer.headers["X-Request-Id"]
            async for sound in self._events(stream, answer) if self.way == "sse" else answer.aiter_raw():
                stream.heard(time.monotonic(), len(sound) / 2 / RATE)

    async def _events(self, stream: Stream, answer: httpx.Response) -> AsyncIterator[bytes]:
        async for line in answer.aiter_lines():
            event = json.loads(line.removeprefix("data: ")) if line else {"type": ""}
            if event["type"] == "speech.audio.delta":
                yield base64.b64decode(event["audio"])
            elif event["type"] == "error":
                stream.told = event["error"]["code"]


class CallLost(Exception):
    """There is no call, or no more."""


class Line(Deaf):
    """A call of which only the events are kept, until they are read. It pings, as the page does."""

    def __init__(self) -> None:
        super().__init__()
        self.news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def _take(self, event: dict[str, Any]) -> None:
        self.news.put_nowait(event)
        await super()._take(event)

    async def call(self, http: httpx.AsyncClient) -> str:
        answer = await self.ask(http)
        if answer.status_code != 201:
            raise CallLost(answer.json()["error"]["code"])
        await self.accept(answer.text)
        self._spawn(self._ping())
        return answer.headers["location"]

    async def next(self) -> dict[str, Any]:
        """Raises `CallLost` when the server is silent for too long."""
        try:
            return await asyncio.wait_for(self.news.get(), SILENT)
        except TimeoutError:
            raise CallLost("silent") from None

    async def _ping(self) -> None:
        while True:
            if self.channel.readyState == "open":
                self.send("voxrtc.ping", id="", t=0)
            await asyncio.sleep(1)


class Caller(Listener):
    """In a WebRTC call; calls again when that is lost."""

    way = "peer"

    def __init__(self, http: httpx.AsyncClient, seed: int) -> None:
        super().__init__(http, seed)
        self.farewells: list[dict[str, Any]] = []  # events that tell that the call is to end, or has

    async def live(self) -> None:
        while not self._over.is_set():
            line = Line()
            try:
                await line.call(self._http)
                while not self._over.is_set():
                    await self._between(await self._hear(line))
                    while not line.news.empty():
                        self._note(line.news.get_nowait())
            except (CallLost, TimeoutError, httpx.TransportError):  # or it could not be set up
                await self._rest(AGAIN)
            finally:
                await line.close()

    async def _hear(self, line: Line) -> Stream:
        if line.channel.readyState != "open":
            raise CallLost("closed")
        async with self._hearing() as stream:
            line.have_said(stream.text)
            try:
                await self._follow(stream, line)
            except CallLost:
                stream.told = "call lost"
                raise
        return stream

    async def _follow(self, stream: Stream, line: Line) -> None:
        while True:
            event = await line.next()
            if not stream.note(event):
                self._note(event)
            match event:
                case {"type": "output_audio_buffer.started"}:
                    stream.first = time.monotonic()
                case {"type": "voxrtc.playout", "response_id": stream.name}:
                    return
                case {"type": "response.done", "response": {"id": stream.name, "status": "failed"}} if stream.first is None:
                    return  # nothing of it will be played

    def _note(self, event: dict[str, Any]) -> None:
        if event["type"] in ("voxrtc.ending", "error"):
            self.farewells.append(event)
