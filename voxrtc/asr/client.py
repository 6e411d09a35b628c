"""What a conversation holds of the speech-to-text process."""

from __future__ import annotations

import asyncio
from typing import Protocol

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from voxrtc.engine.transport import CONNECTION, dealer
from voxrtc.messages import (
    Finish,
    Forget,
    Hear,
    HearingReply,
    HearingRequest,
    Hypothesis,
    NotTranscribed,
    Transcript,
    decode,
    encode,
)

LOST = "Speech to text has stopped and is being restarted. Please say it again in a few seconds."


class Reader(Protocol):
    """Who wants an utterance's words. It is told one of the last two, once: `transcript` after `finish`, `unheard` any time."""

    def hypothesis(self, text: str) -> None:
        """What was said so far; later ones may say otherwise."""

    def transcript(self, text: str) -> None:
        """What was said; "" when there are no words in it."""

    def unheard(self, code: str, message: str) -> None:
        """There will be no transcript."""


class Transcriber(Protocol):
    """Speech to text, for many utterances at a time. Nothing here waits, and nothing raises."""

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        """A new utterance, under a fresh id, and its first sound."""

    def hear(self, utterance: str, pcm: bytes) -> None:
        """Its next sound: PCM16 of 16 kHz. Ignored when it is over."""

    def finish(self, utterance: str) -> None:
        """Nothing follows; its reader will be told."""

    def forget(self, utterance: str) -> None:
        """Its reader wants to hear nothing more of it."""


class HearingClient:
    """`Transcriber` in another process. Make and use it on one running event loop; it finds a restarted process by itself."""

    def __init__(self, address: str) -> None:
        self._socket = dealer()
        monitor = self._socket.get_monitor_socket(CONNECTION)
        self._socket.connect(address)
        self._connected = False
        self._readers: dict[str, Reader] = {}
        self._tasks = [asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._watch(monitor))]

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        self._readers[utterance] = reader
        if self._connected:
            self._send(Hear(utterance=utterance, pcm=pcm, first=True))
        else:
            self._lose(utterance)

    def hear(self, utterance: str, pcm: bytes) -> None:
        self._send(Hear(utterance=utterance, pcm=pcm))

    def finish(self, utterance: str) -> None:
        self._send(Finish(utterance=utterance))

    def forget(self, utterance: str) -> None:
        self._send(Forget(utterance=utterance))
        self._readers.pop(utterance, None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._socket.disable_monitor()
        self._socket.close()

    def _send(self, request: HearingRequest) -> None:
        if request.utterance not in self._readers:
            return
        sent = asyncio.ensure_future(self._socket.send(encode(request), zmq.NOBLOCK))  # done already: it goes now or never
        if sent.done() and sent.exception():
            self._lose(request.utterance)

    async def _receive(self) -> None:
        while True:
            self._tell(decode(await self._socket.recv(), HearingReply))

    def _tell(self, reply: HearingReply) -> None:
        if isinstance(reply, Hypothesis):
            if reader := self._readers.get(reply.utterance):
                reader.hypothesis(reply.text)
        elif reader := self._readers.pop(reply.utterance, None):
            match reply:
                case Transcript():
                    reader.transcript(reply.text)
                case NotTranscribed():
                    reader.unheard(reply.code, reply.message)

    async def _watch(self, monitor: zmq.asyncio.Socket) -> None:
        while True:
            event = (await recv_monitor_message(monitor))["event"]
            self._connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if not self._connected:
                for utterance in list(self._readers):
                    self._lose(utterance)

    def _lose(self, utterance: str) -> None:
        if reader := self._readers.pop(utterance, None):
            reader.unheard("transcriber_lost", LOST)
