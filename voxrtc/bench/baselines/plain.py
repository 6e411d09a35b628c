"""The plain `generate` loop behind the engine's protocol: requests are jobs for an executor, and that is all scheduling."""

from __future__ import annotations

import argparse
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor

import torch

from voxrtc.bench.baselines.generate import speak
from voxrtc.engine.server import EngineServer
from voxrtc.lifeline import die_with_parent
from voxrtc.messages.engine import (
    Cancel,
    Chunk,
    Ended,
    EngineReply,
    EngineRequest,
    Failed,
    Generate,
    GetStats,
    Stats,
    StreamStats,
    Timing,
)
from voxrtc.messages.model import GetModels, ModelInfo, Models
from voxrtc.niceness import give_way
from voxrtc.settings import Settings
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import InvalidRequest, pcm16
from voxrtc.speechlm.lark.model import Lark

CHUNK = 32  # frames; of 4, 8, 16 and 32 the most sound a second, and the first of it in 0.14 s

log = logging.getLogger(__name__)
Reply = Callable[[EngineReply], None]


class PlainServer:
    """Takes requests as an `Engine` does and speaks each in a job of its own."""

    def __init__(self, lark: Lark, info: ModelInfo, executor: Executor, chunk: int) -> None:
        self._lark, self._info, self._executor, self._chunk = lark, info, executor, chunk
        self._born, self._finished, self._cancelled = time.monotonic(), 0, 0
        self._streams: dict[str, threading.Event] = {}  # with whether it is cancelled
        self._lock = threading.Lock()  # replies go out from many threads, but only from one at a time

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        """Called on the server's thread."""
        match request:
            case Generate():
                stop = self._streams[request.stream] = threading.Event()
                self._executor.submit(self._job, request, stop, time.monotonic(), reply)
            case Cancel():
                if known := self._streams.get(request.stream):
                    known.set()
            case GetModels():
                self._answer(reply, Models(call=request.call, models=[self._info]))
            case GetStats():
                self._answer(reply, self._stats(request.call))

    def refusal(self, request: Generate) -> None:
        """Nobody is refused."""

    def _job(self, request: Generate, stop: threading.Event, received: float, reply: Reply) -> None:
        try:
            over: Ended | Failed = self._speak(request, stop, received, reply)
        except InvalidRequest as wrong:
            over = Failed(stream=request.stream, code="invalid_request", message=str(wrong))
        except Exception:
            log.exception("stream %s failed", request.stream)
            over = Failed(stream=request.stream, code="engine_error", message="The model failed on this text.")
        del self._streams[request.stream]
        self._answer(reply, over)

    def _speak(self, request: Generate, stop: threading.Event, received: float, reply: Reply) -> Ended:
        began, rate, samples = time.monotonic(), self._lark.detokenizer.sample_rate, 0
        for index, sound in enumerate(speak(self._lark, request.text, self._chunk, request.sampling.seed or 0)):
            if stop.is_set():
                break
            samples += len(sound)
            timing = None if index else _timing(request, received, began)
            self._answer(reply, Chunk(stream=request.stream, index=index, pcm=pcm16(sound), sample_rate=rate, timing=timing))
        self._finished, self._cancelled = self._finished + (not stop.is_set()), self._cancelled + stop.is_set()
        reason, frames = "cancelled" if stop.is_set() else "done", samples // self._lark.detokenizer.samples_per_group
        return Ended(stream=request.stream, reason=reason, frames=frames)

    def _answer(self, reply: Reply, message: EngineReply) -> None:
        with self._lock:
            reply(message)

    def _stats(self, call: int) -> Stats:
        """Only what a loop without a scheduler has."""
        streams = [StreamStats(stream=name, state="playing", frames=0, slack=None) for name in list(self._streams)]
        return Stats(
            call=call, uptime=time.monotonic() - self._born, steps=0, frames=0, chunks=0, finished=self._finished,
            cancelled=self._cancelled, failed=0, frames_after_cancel=0, preempted=0, gave_way=0,
            paused=0.0, policy="fifo", kv_pages_used=0, kv_pages=0, overhead=0.0,
            costs={}, waiting=0, streams=streams,
        )  # fmt: skip


def _timing(request: Generate, received: float, began: float) -> Timing:
    """Of a first chunk that exists now: the loop knows only when it began."""
    return Timing(
        accepted=request.accepted,
        received=received,
        prompt_ready=began,
        first_step=began,
        first_frame=began,
        first_chunk=time.monotonic(),
    )


def serve(executor: Executor, threads: int) -> None:
    """Load the model of the settings and serve it, with `threads` for torch's own use."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    address = parser.parse_args().listen
    settings = Settings()
    logging.basicConfig(level=settings.log_level)
    die_with_parent()
    give_way(5)  # as the engine
    torch.set_num_threads(threads)
    info, lark = registry.load(settings.models, settings.model)
    assert isinstance(lark, Lark)
    for _ in speak(lark, "Yes.", CHUNK):  # the first sentence is slow
        pass
    server = EngineServer(settings.model, address)
    server.open(PlainServer(lark, info, executor, settings.chunk or CHUNK), info)
    server.serve()
