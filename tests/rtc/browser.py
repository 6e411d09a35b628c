"""A browser for tests: aiortc as the other side of a call."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from fractions import Fraction
from typing import Any

import av
import httpx
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

from tests.waiting import PATIENCE
from voxrtc.rtc.microphone import RATE as SPOKEN
from voxrtc.rtc.sound import RATE, RTP_RATE, Samples

SDP = {"content-type": "application/sdp"}


class Tone(MediaStreamTrack):
    """20 ms of 440 Hz at a time, at the pace of the clock."""

    kind = "audio"

    def __init__(self, rate: int, layout: str) -> None:
        super().__init__()
        self._rate, self._layout, self._sent = rate, layout, 0
        self._began: float | None = None

    async def recv(self) -> av.AudioFrame:
        loop, samples = asyncio.get_running_loop(), self._rate // 50
        self._began = loop.time() if self._began is None else self._began
        await asyncio.sleep(self._began + self._sent / self._rate - loop.time())
        wave = 8_000 * np.sin(2 * np.pi * 440 * np.arange(self._sent, self._sent + samples) / self._rate)
        channels = 2 if self._layout == "stereo" else 1
        pcm = np.repeat(wave.astype(np.int16), channels)[None]
        frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout=self._layout)
        frame.sample_rate, frame.pts, frame.time_base = self._rate, self._sent, Fraction(1, self._rate)
        self._sent += samples
        return frame


class Mouth(MediaStreamTrack):
    """Silence, or what it is told to say, at `SPOKEN` and at the pace of the clock."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._words = np.zeros(0, np.int16)
        self._sent, self._began = 0, time.monotonic()

    def say(self, words: Samples) -> None:
        self._words = np.concatenate([self._words, words])

    async def recv(self) -> av.AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        count = SPOKEN // 50
        await asyncio.sleep(self._began + self._sent / SPOKEN - time.monotonic())
        now, self._words = self._words[:count], self._words[count:]
        frame = av.AudioFrame.from_ndarray(np.pad(now, (0, count - len(now)))[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = SPOKEN, self._sent, Fraction(1, SPOKEN)
        self._sent += count
        return frame


def own_words(text: str) -> dict[str, Any]:
    """The event that has the assistant say this, as it is, beside the conversation."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return {"type": "response.create", "response": {"conversation": "none", "input": [item]}}


class Browser:
    """Offers audio and the data channel; keeps the events and the sound that come."""

    def __init__(self, direction: str = "recvonly") -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel = self.connection.createDataChannel("oai-events")
        self._sender = self.connection.addTransceiver("audio", direction=direction).sender
        self.events: list[dict[str, Any]] = []
        self.opened = asyncio.Event()
        self._came = asyncio.Condition()
        self._sound: list[np.ndarray] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.channel.on("open", self.opened.set)
        self.channel.on("message", lambda text: self._spawn(self._take(json.loads(text))))
        self.connection.on("track", lambda track: self._spawn(self._listen(track)))

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return str(self.connection.localDescription.sdp)

    async def accept(self, answer: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        await asyncio.wait_for(self.opened.wait(), PATIENCE)

    def send(self, type: str, **fields: Any) -> None:
        self.channel.send(json.dumps({"type": type, **fields}))

    def write(self, text: str) -> None:
        """Say that the user wrote this."""
        content = [{"type": "input_text", "text": text}]
        self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})

    def say(self, text: str) -> None:
        """Ask for `text` to be spoken."""
        self.write(text)
        self.send("response.create")

    def have_said(self, text: str) -> None:
        """As the assistant's own words."""
        self.send(**own_words(text))

    def talk(self, rate: int, layout: str) -> None:
        """Give the sound of a microphone, a tone, to the call."""
        self._sender.replaceTrack(Tone(rate, layout))

    def hush(self) -> None:
        """Take it away: nothing is sent any more."""
        self._sender.replaceTrack(None)

    async def event(self, type: str) -> dict[str, Any]:
        """The first event of this type, come or to come."""
        found = lambda: next((event for event in self.events if event["type"] == type), None)  # noqa: E731
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: found() is not None), PATIENCE)
        return found() or {}

    @property
    def sound(self) -> np.ndarray:
        """What was heard so far, at `rtc.sound.RATE`: nothing that is sent needs more."""
        return np.concatenate(self._sound) if self._sound else np.zeros(0, np.int16)

    async def close(self) -> None:
        await self.connection.close()
        for task in self._tasks:
            task.cancel()

    def vanish(self) -> None:
        """Go without a word, as a machine that loses its network: nothing is sent or received any more."""
        ice = self.connection.sctp.transport.transport._connection
        for protocol in ice._protocols:
            protocol.transport.sendto = lambda *_: None
            protocol.datagram_received = lambda *_: None

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, event: dict[str, Any]) -> None:
        async with self._came:
            self.events.append(event)
            self._came.notify_all()

    async def _listen(self, track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                self._sound.append(frame.to_ndarray().reshape(-1, 2)[:: RTP_RATE // RATE, 0])


class Deaf(Browser):
    """Keeps nothing of what comes, so that it may listen for hours: `counts` are how many events of each type came."""

    def __init__(self, direction: str = "recvonly") -> None:
        super().__init__(direction)
        self.counts: Counter[str] = Counter()

    async def ask(self, http: httpx.AsyncClient) -> httpx.Response:
        """The answer to its offer."""
        return await http.post("/v1/realtime/calls", content=await self.offer(), headers=SDP)

    async def call(self, http: httpx.AsyncClient) -> str:
        """Where the call is, to be deleted."""
        answer = await self.ask(http)
        assert answer.status_code == 201, answer.text
        await self.accept(answer.text)
        return answer.headers["location"]

    async def until(self, *types: str) -> None:
        """One more event of one of these types."""
        before = sum(self.counts[type] for type in types)
        async with self._came:
            await self._came.wait_for(lambda: sum(self.counts[type] for type in types) > before)

    async def _take(self, event: dict[str, Any]) -> None:
        async with self._came:
            self.counts[event["type"]] += 1
            self._came.notify_all()

    async def _listen(self, track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                await track.recv()
