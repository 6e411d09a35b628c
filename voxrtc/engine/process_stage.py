"""The detokenizer in a process of its own, as the engine sees it: so the Python of the two stages shares no interpreter's lock.

One thread asks, a question at a time, over a socket pair; samples of 64 streams are a megabyte, which takes a millisecond. The
other side is `detokenizer_process`. When it dies, or hangs and is killed, the streams whose states it had fail; those that
begin later have the one that is started in its place.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from voxrtc.engine.line import Line
from voxrtc.engine.sound_stage import BrokenStream, Chunk
from voxrtc.messages import decode, encode
from voxrtc.messages.detokenizer import Array, Decode, Decoded, DetokenizerReply, End, Fresh, Part, Ready, Sound, Unfit
from voxrtc.speechlm.base import Voice

# Seconds after which the process is taken to hang: a GPU's first call takes some, and a flow on one core takes 0.1 a frame
HANGS, A_STREAM, A_FRAME = 15.0, 1.0, 0.2

log = logging.getLogger(__name__)


class StageLost(Exception):
    """The detokenizer's process has ended, hangs, or could not begin. The message says which."""


class Runs(Protocol):
    """What is at the other end of the line."""

    def wait(self) -> int:
        """Until it has ended -> its exit code."""
        ...

    def poll(self) -> int | None:
        """The same now; None: it runs."""
        ...

    def kill(self) -> None: ...


@dataclass(eq=False)
class Peer:
    """The detokenizer's process, and what it has."""

    line: Line
    process: Runs
    memory: float = 0.0
    ready: bool = False
    voices: dict[int, weakref.ref[Voice]] = field(default_factory=dict)  # by the numbers that it knows them by

    def ask(self, request: Decode) -> Decoded:
        """Raises `StageLost`."""
        self.wait()
        with self._lost_after(_patience(request)):
            self.line.send(encode(request))
            reply = decode(self.line.receive(), DetokenizerReply)
        assert isinstance(reply, Decoded)
        self.memory = reply.memory
        return reply

    def wait(self) -> None:
        """Until it is ready. Raises `StageLost`."""
        if self.ready:
            return
        with self._lost_after(None):
            reply: DetokenizerReply = decode(self.line.receive(), DetokenizerReply)
        match reply:
            case Ready(memory=memory):
                self.ready, self.memory = True, memory
            case Unfit(message=message):
                raise StageLost(message)

    def end(self, stream: int) -> None:
        """Nothing more is to come of it. Raises `StageLost`."""
        with self._lost_after(HANGS):
            self.line.send(encode(End(stream=stream)))

    @contextmanager
    def _lost_after(self, seconds: float | None) -> Iterator[None]:
        try:
            with self.line.within(seconds):
                yield
        except TimeoutError as hangs:
            raise StageLost("The detokenizer's process does not answer.") from hangs
        except (EOFError, OSError) as gone:
            raise StageLost("The detokenizer's process has ended.") from gone


def _patience(request: Decode) -> float:
    return HANGS + sum(A_STREAM + A_FRAME * part.frames.shape[0] for part in request.parts)


def start(environment: Mapping[str, str]) -> Peer:
    """A process for the settings in `environment`. Its standard input is its lifeline."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "voxrtc.engine.detokenizer_process", "--line", f"{theirs.fileno()}"]
        settings, line = {**os.environ, **environment}, [theirs.fileno()]
        process = subprocess.Popen(command, env=settings, stdin=subprocess.PIPE, pass_fds=line)
    return Peer(Line(ours), process)


@dataclass
class Remote:
    """A stream whose state is in another process."""

    number: int
    seed: int
    voice: Voice
    at: Peer | None = None  # None: nobody has heard of it yet


class ProcessStage:
    """See `sound_stage.SoundStage`."""

    graphs = None  # they are over there

    def __init__(self, start: Callable[[], Peer]) -> None:
        self._start, self._numbers = start, itertools.count()
        self._lock, self._stopping = threading.Lock(), False  # over which peer there is
        self._peer = self._started()

    @property
    def memory(self) -> float:
        return self._peer.memory

    def wait(self) -> None:
        """Until it is loaded. Raises `StageLost`."""
        self._peer.wait()

    def begin(self, voice: Voice, seed: int) -> Remote:
        return Remote(next(self._numbers), seed, voice)

    def decode(self, chunks: list[Chunk]) -> list[Tensor | Exception]:
        peer = self._peer  # read once, as another thread may renew it meanwhile
        if peer.process.poll() is not None:
            peer = self._renew(peer)
        known = [chunk.state.at in (None, peer) for chunk in chunks]
        lost = StageLost("The detokenizer's process ended amid this stream.")
        made = iter(self._ask(peer, [chunk for chunk, here in zip(chunks, known, strict=True) if here]))
        return [next(made) if here else lost for here in known]

    def end(self, state: Remote) -> None:
        if (peer := self._peer) is state.at:
            try:
                peer.end(state.number)
            except StageLost:
                peer.process.kill()  # and the state with it

    def check(self) -> None:
        """That is done over there."""

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
        self._peer.line.close()
        self._peer.process.kill()

    def _ask(self, peer: Peer, chunks: list[Chunk]) -> list[Tensor | Exception]:
        if not chunks:
            return []
        try:
            return [_samples(sound) for sound in peer.ask(self._question(peer, chunks)).sounds]
        except Exception as lost:  # noqa: BLE001  whatever came of it, those who ask later are to be served
            peer.process.kill()  # if it lives, nobody knows in what state
            peer.process.wait()
            return [lost] * len(chunks)

    def _question(self, peer: Peer, chunks: list[Chunk]) -> Decode:
        forget = [number for number, voice in peer.voices.items() if voice() is None]  # nobody here has them any more
        for number in forget:
            del peer.voices[number]
        streams: list[Remote] = [chunk.state for chunk in chunks]
        fresh = [stream for stream in streams if stream.at is None]
        voices = {id(stream.voice): stream.voice for stream in fresh if stream.voice is not None}
        new = {number: voice for number, voice in voices.items() if number not in peer.voices}
        parts = [_part(stream, chunk) for stream, chunk in zip(streams, chunks, strict=True)]
        for stream in fresh:
            stream.at = peer
        peer.voices |= {number: weakref.ref(voice) for number, voice in new.items()}
        told = {number: [packed(part) for part in voice.parts] for number, voice in new.items()}
        return Decode(parts=parts, voices=told, forget=forget)

    def _started(self) -> Peer:
        peer = self._start()
        threading.Thread(target=self._mourn, args=(peer,), name="detokenizer's life", daemon=True).start()
        return peer

    def _mourn(self, peer: Peer) -> None:
        """One that dies is replaced at once, unless it never worked: then when somebody needs it."""
        code = peer.process.wait()
        if not self._stopping:
            log.error("the detokenizer's process ended with code %s; it is started again", code)
            if peer.ready:
                self._renew(peer)

    def _renew(self, dead: Peer) -> Peer:
        """The dead one itself where no other can be started: who asks next tries again."""
        with self._lock:
            if self._peer is dead and not self._stopping:
                try:
                    self._peer = self._started()
                except OSError as error:  # no memory is left, say, or no file
                    log.error("the detokenizer's process could not be started (%s)", error.strerror)
            return self._peer


def _part(stream: Remote, chunk: Chunk) -> Part:
    fresh = None
    if stream.at is None:
        fresh = Fresh(seed=str(stream.seed), voice=None if stream.voice is None else id(stream.voice))
    return Part(stream=stream.number, frames=packed(chunk.frames), final=chunk.final, fresh=fresh)


def packed(tensor: Tensor) -> Array:
    """A tensor as a message has it."""
    array = tensor.cpu().numpy()
    return Array(memoryview(array.tobytes()), array.shape, array.dtype.name)


def _samples(sound: Sound) -> Tensor | Exception:
    if sound.error:
        return BrokenStream(sound.error)
    return torch.from_numpy(np.frombuffer(sound.samples, np.float32))
