"""A virtual listener with all that a browser has: a WebRTC call of our own server, sound that is decoded, a data channel."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import numpy as np
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from voxrtc.crowd.listener import PAUSE
from voxrtc.crowd.texts import length, text_of
from voxrtc.messages.crowd import Listened, PeerPhase, PeerState
from voxrtc.rtc import ice

LOUD = 200  # of 32768: what is louder is sound
PATIENCE = 60.0  # seconds that a response may take until something of it is told
AGAIN = 2.0  # seconds until a call that failed is tried anew


class CallFailed(Exception):
    """There is no call, or no more; `code` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Error(msgspec.Struct):
    code: str


class _Refusal(msgspec.Struct):
    error: _Error


class Peer:
    """`live` runs until it is cancelled, which hangs up."""

    def __init__(self, number: int, server: str, key: str, model: str, heard: Callable[[Listened], None]) -> None:
        self.model = model
        self._key = {"Authorization": f"Bearer {key}"}
        self._number, self._server, self._heard = number, server, heard
        self._rng = random.Random(number)
        self._phase: PeerPhase = "connecting"
        self._response = self._cause = ""
        self._first: float | None = None  # when sound was first decoded since it was asked for
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    @property
    def state(self) -> PeerState:
        return PeerState(number=self._number, phase=self._phase, response=self._response, cause=self._cause)

    async def live(self, after: float) -> None:
        """Call after so many seconds, listen, and call again when that breaks off."""
        await asyncio.sleep(after)
        while True:
            try:
                await self._call()
            except CallFailed as failed:
                self._cause = failed.code
            except (httpx.HTTPError, TimeoutError, msgspec.DecodeError):  # or what answers is no server of ours
                self._cause = "unreachable"
            self._phase, self._response = "away", ""
            await asyncio.sleep(AGAIN * self._rng.uniform(0.75, 1.5))

    async def _call(self) -> None:
        connection, opened = RTCPeerConnection(ice.configuration("")), asyncio.Event()
        channel = connection.createDataChannel("oai-events")
        channel.on("open", opened.set)
        channel.on("message", lambda text: self._events.put_nowait(json.loads(text)))
        channel.on("close", lambda: self._events.put_nowait({"type": "closed"}))
        connection.addTransceiver("audio", direction="recvonly")
        listening: list[asyncio.Task[None]] = []
        connection.on("track", lambda track: listening.append(asyncio.create_task(self._listen(track))))
        try:
            self._phase, self._cause, self._events = "connecting", "", asyncio.Queue()
            await connection.setLocalDescription(await connection.createOffer())
            answer = await self._offer(connection.localDescription.sdp)
            await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
            await asyncio.wait_for(opened.wait(), PATIENCE)
            while True:
                await self._have_said(channel.send, text_of(length(self._rng), self._rng))
                self._phase, self._response = "resting", ""
                await asyncio.sleep(self._rng.uniform(*PAUSE))
        finally:
            for task in listening:
                task.cancel()
            await connection.close()

    async def _offer(self, sdp: str) -> str:
        session = {"type": "realtime", "model": self.model, "voxrtc": {"background": True}}
        async with httpx.AsyncClient(base_url=self._server, headers=self._key) as http:
            answer = await http.post("/v1/realtime/calls", json={"sdp": sdp, "session": session}, timeout=PATIENCE)
        if answer.status_code != httpx.codes.CREATED:
            raise CallFailed(msgspec.json.decode(answer.content, type=_Refusal).error.code)
        return answer.text

    async def _have_said(self, send: Callable[[str], None], text: str) -> None:
        """Ask for it, and hear it to its end. As the assistant's own words, which are spoken as they are."""
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        asked, self._first, self._phase = time.monotonic(), None, "waiting"
        send(json.dumps({"type": "response.create", "response": {"conversation": "none", "input": [item]}}))
        while True:
            match await asyncio.wait_for(self._events.get(), PATIENCE):
                case {"type": "response.created", "response": {"id": response}}:
                    self._response = response
                case {"type": "output_audio_buffer.started"}:
                    self._phase = "playing"
                case {"type": "voxrtc.playout", "underruns": underruns}:
                    ttfa = (self._first or time.monotonic()) - asked
                    return self._heard(Listened(asked=asked, ttfa=ttfa, underruns=underruns))
                case {"type": "error", "error": {"code": code}}:
                    raise CallFailed(code)
                case {"type": "closed"}:
                    raise CallFailed("call_over")

    async def _listen(self, track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                if self._phase in ("waiting", "playing") and self._first is None and np.abs(frame.to_ndarray()).max() > LOUD:
                    self._first = time.monotonic()
