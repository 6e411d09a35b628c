"""An engine that makes a tone for whoever asks, for benches of what comes behind an engine. It costs next to nothing: one
thread, chunks that were made beforehand, and no task for a stream.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import zmq

from voxrtc.messages import decode, encode
from voxrtc.messages.engine import Cancel, Chunk, EngineReply, EngineRequest, Generate, Timing
from voxrtc.messages.model import ModelInfo, Progress, Watch

RATE = 24_000  # Hz
CHUNK, AHEAD = 0.1, 5  # seconds of a message, and how many go out before their time
TONE = ModelInfo(
    name="tone",
    title="Tone",
    description="",
    family="tone",
    languages=[],
    voices=["default"],
    licence="",
    sample_rate=RATE,
    frame_rate=10.0,
)


def tone(seconds: float, rate: int) -> bytes:
    """PCM16 of 440 Hz."""
    return (8_000 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)).astype(np.int16).tobytes()


PCM = tone(CHUNK, RATE)


@dataclass
class Speech:
    """A stream, at the pace of its listener."""

    client: bytes
    request: Generate
    due: float = field(default_factory=time.monotonic)  # when its next chunk is
    index: int = 0

    def next(self) -> Chunk:
        timing = None if self.index else self._timing()
        chunk = Chunk(stream=self.request.stream, index=self.index, pcm=PCM, sample_rate=RATE, timing=timing)
        self.index += 1
        return chunk

    def _timing(self) -> Timing:
        now, accepted = self.due, self.request.accepted
        return Timing(accepted=accepted, received=now, prompt_ready=now, first_step=now, first_frame=now, first_chunk=now)


class Tones:
    """Answers each `Generate` with a tone that never ends."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.bind(address)
        self._speaking: deque[Speech] = deque()  # in the order in which they are due, since all have one period

    def run(self) -> None:
        while True:
            wait = max(0.0, self._speaking[0].due - time.monotonic()) if self._speaking else 1.0
            if self._socket.poll(math.ceil(1000 * wait)):
                self._take(*self._socket.recv_multipart())
            while self._speaking and self._speaking[0].due <= time.monotonic():
                speech = self._speaking.popleft()
                self._say(speech.client, speech.next())
                speech.due += CHUNK
                self._speaking.append(speech)

    def _take(self, client: bytes, data: bytes) -> None:
        match decode(data, EngineRequest):
            case Watch():
                self._say(client, Progress(state="ready", info=TONE))
            case Generate() as request:
                speech = Speech(client, request)
                for _ in range(AHEAD):
                    self._say(client, speech.next())
                speech.due += CHUNK
                self._speaking.append(speech)
            case Cancel(stream=stream):
                self._speaking = deque(each for each in self._speaking if each.request.stream != stream)

    def _say(self, client: bytes, reply: EngineReply) -> None:
        self._socket.send_multipart([client, encode(reply)])


def engine_process(address: str) -> None:
    Tones(address).run()
