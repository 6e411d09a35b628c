"""A browser for tests: aiortc as the other side of a call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

PATIENCE = 10.0  # seconds; reached only when something is broken


class Browser:
    """Offers audio and the data channel; keeps the events and the sound that come."""

    def __init__(self, direction: str = "recvonly") -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel = self.connection.createDataChannel("oai-events")
        self.connection.addTransceiver("audio", direction=direction)
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

    def say(self, text: str) -> None:
        """Ask for `text` to be spoken."""
        content = [{"type": "input_text", "text": text}]
        self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        self.send("response.create")

    async def event(self, type: str) -> dict[str, Any]:
        """The first event of this type, come or to come."""
        found = lambda: next((event for event in self.events if event["type"] == type), None)  # noqa: E731
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: found() is not None), PATIENCE)
        return found() or {}

    @property
    def sound(self) -> np.ndarray:
        """What was heard so far, at 48 kHz."""
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
                self._sound.append(frame.to_ndarray().reshape(-1, 2)[:, 0])
