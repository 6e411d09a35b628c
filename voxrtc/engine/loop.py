"""The engine's loop: takes requests, asks the policy, runs the worker, hands over sound.

One thread steps the model. Beside it one thread detokenizes and one makes prompts, so that neither stands in a step's way;
their results come in through the same inbox as requests do. So all of a stream's bookkeeping happens on one thread.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from torch import Tensor

from voxrtc.engine.costs import Costs
from voxrtc.engine.sampling import check
from voxrtc.engine.scheduler import Policy, StepPlan, playout
from voxrtc.engine.snapshot import Counters, machine, stats, view
from voxrtc.engine.stream import Piece, State, Stream
from voxrtc.engine.worker import Chunk as CodecChunk
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages import (
    Cancel,
    Chunk,
    Ended,
    EngineReply,
    EngineRequest,
    Failed,
    Generate,
    GetModels,
    GetStats,
    ModelInfo,
    Models,
    Playout,
)
from voxrtc.speechlm.base import InvalidRequest, Prompt, pcm16

log = logging.getLogger(__name__)

Reply = Callable[[EngineReply], None]

WARM_UP = (1, 4, 16)  # streams at a time
NAP = 0.02  # seconds between looks at streams that rest because they are far ahead of their listeners


class Engine:
    """One model served to many listeners. `submit` from any thread; everything else happens on the engine's own."""

    def __init__(
        self,
        worker: Worker,
        info: ModelInfo,
        policy: Policy = playout,
        max_waiting: int = 64,
        clock: Callable[[], float] = time.monotonic,
        executor: Callable[[str], Executor] = lambda name: ThreadPoolExecutor(1, thread_name_prefix=name),
        on_crash: Callable[[], None] = lambda: None,
    ) -> None:
        self.worker, self.info, self.policy, self.max_waiting, self.clock = worker, info, policy, max_waiting, clock
        self.streams: dict[str, Stream] = {}
        self.counters = Counters(born=clock())
        self.costs = Costs()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._slots = list(range(worker.slots))
        self._detokenizing = False
        self._on_crash = on_crash
        self._prompts, self._codec = executor("prompts"), executor("detokenizer")
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._stopping = False

    # --- from other threads ---

    def start(self) -> None:
        """Begin stepping on a thread of its own, after a few sentences said to nobody."""
        self._warm_up()
        self._thread.start()

    def _warm_up(self) -> None:
        """The first sentence is slow, and the policy needs an idea of what steps of different sizes cost."""
        for streams in (1, *WARM_UP):
            for i in range(min(streams, self.worker.slots)):
                self.submit(Generate(stream=f"warm-up {i}", text="Yes.", accepted=self.clock()), lambda reply: None)
            while self.run_once() or self.streams:
                self._wait()
            if streams == 1:
                self.costs = Costs()  # the slow one is no example
        self.counters = Counters(born=self.clock())

    def stop(self) -> None:
        """End after the present step; streams are left as they are."""
        self._inbox.put(self._stop)
        self._thread.join()
        self._prompts.shutdown(cancel_futures=True)
        self._codec.shutdown(cancel_futures=True)

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        """Hand in a request. `reply` is called on the engine's thread and must not block."""
        self._inbox.put(partial(self._take, request, reply, self.clock()))

    # --- the loop ---

    def _stop(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        try:
            while not self._stopping:
                if not self.run_once() and not self._stopping:
                    self._wait()
        except BaseException:
            log.critical("the engine's bookkeeping broke", exc_info=True)
            self._on_crash()

    def _wait(self) -> None:
        resting = any(stream.piece for stream in self.streams.values()) and not self._detokenizing
        try:
            self._inbox.get(timeout=NAP if resting else None)()
        except queue.Empty:
            pass

    def run_once(self) -> bool:
        """Take what came in and run one step. False when there was nothing to run."""
        while not self._inbox.empty():
            self._inbox.get()()
        now = self.clock()
        views = [view(stream, self.worker, now) for stream in self.streams.values() if stream.piece or stream.prepared]
        plan = self.policy(now, views, machine(self.worker, self.costs, self._detokenizing))
        if plan.idle:
            return False
        self._execute(plan)
        return True

    def _execute(self, plan: StepPlan) -> None:
        for name in plan.admit:
            self._admit(self.streams[name])
        if plan.detokenize:
            self._detokenize([(self.streams[name], count) for name, count in plan.detokenize])
        parts = [*plan.prefill, *((name, 1) for name in plan.decode)]
        if parts:
            self._step([(self.streams[name], count) for name, count in parts])

    def _step(self, parts: list[tuple[Stream, int]]) -> None:
        tasks = []
        for stream, count in parts:
            assert (piece := stream.piece) is not None, f"{stream.id} was planned without a prompt"
            tasks.append(Task(stream.slot, piece.position, count, samples=piece.position + count >= piece.prompt.length))
            stream.first_step = stream.first_step or self.clock()
        began = self.clock()
        results = self.worker.step(tasks)
        self.costs.step.observe(self.clock() - began, len(tasks), sum(task.count for task in tasks if task.count > 1))
        self.counters.steps += 1
        for (stream, count), result in zip(parts, results, strict=True):
            if isinstance(result, Exception):
                self._fail(stream, result)
            else:
                self._advance(stream, count, result)

    def _advance(self, stream: Stream, count: int, sampled: tuple[Tensor, bool] | None) -> None:
        assert stream.piece is not None
        stream.piece.position += count
        if sampled:
            stream.piece.add(*sampled)
            stream.frames += 1
            stream.frame_times.append(self.clock())
            stream.first_frame = stream.first_frame or stream.frame_times[-1]
            self.counters.frames += 1

    # --- sound ---

    def _detokenize(self, parts: list[tuple[Stream, int]]) -> None:
        chunks, finals = [], []
        for stream, count in parts:
            assert (piece := stream.piece) is not None
            frames = piece.take(count)
            finals.append(piece.complete and not piece.pending)
            chunks.append(CodecChunk(frames, piece.detokenizer, finals[-1]))
        self._detokenizing = True
        owners = [(stream, stream.piece, final) for (stream, _), final in zip(parts, finals, strict=True)]
        pushed = sum(count for _, count in parts) + sum(finals) * self.worker.model.detokenizer.lookahead

        def decode() -> list[Tensor | Exception]:
            began = self.clock()
            samples = self.worker.detokenize(chunks)
            self._inbox.put(partial(self.costs.codec.observe, self.clock() - began, len(chunks), pushed))
            return samples

        job = self._codec.submit(decode)
        job.add_done_callback(lambda done: self._inbox.put(partial(self._decoded, owners, done)))

    def _decoded(self, owners: list[tuple[Stream, Piece | None, bool]], done: Future[list[Tensor | Exception]]) -> None:
        self._detokenizing = False
        for (stream, piece, final), samples in zip(owners, done.result(), strict=True):
            if stream.piece is not piece:
                continue  # cancelled meanwhile: late sound is dropped
            if isinstance(samples, Exception):
                self._fail(stream, samples)
                continue
            if len(samples):
                self._hand_over(stream, samples)
            if final:
                self._next_piece(stream)

    def _hand_over(self, stream: Stream, samples: Tensor) -> None:
        rate = self.worker.model.detokenizer.sample_rate
        timing = None if stream.chunks else stream.timing(self.clock())
        stream.state = State.PLAYING
        stream.delivered += len(samples) / rate
        stream.reply(Chunk(stream=stream.id, index=stream.chunks, pcm=pcm16(samples), sample_rate=rate, timing=timing))
        stream.chunks += 1
        self.counters.chunks += 1

    # --- a stream's life ---

    def _take(self, request: EngineRequest, reply: Reply, at: float) -> None:
        match request:
            case Generate():
                self._begin(request, reply, at)
            case Cancel():
                if stream := self.streams.get(request.stream):
                    self._end(stream, State.CANCELLED, sum(when > at for when in stream.frame_times))
            case Playout():
                if stream := self.streams.get(request.stream):
                    stream.clock.report(request)
            case GetModels():
                reply(Models(call=request.call, models=[self.info]))
            case GetStats():
                reply(stats(request.call, self.counters, self.streams.values(), self.worker, self.clock()))

    def _begin(self, request: Generate, reply: Reply, at: float) -> None:
        if refusal := self._refusal(request):
            self.counters.ended[State.FAILED] += 1
            reply(Failed(stream=request.stream, code=refusal[0], message=refusal[1]))
            return
        seed = request.sampling.seed
        stream = Stream(request, reply, at, random.getrandbits(62) if seed is None else seed)
        self.streams[stream.id] = stream
        self._prepare(stream)

    def _refusal(self, request: Generate) -> tuple[str, str] | None:
        """Code and message of why a request is not taken."""
        if request.stream in self.streams:
            return "invalid_request", f"Stream {request.stream} exists already."
        if request.model not in ("", self.info.name):
            return "model_not_found", f"There is no model “{request.model}”. Loaded: {self.info.name}."
        if request.voice not in self.worker.model.voices:
            return "invalid_request", f"There is no voice “{request.voice}”. Voices: {', '.join(self.worker.model.voices)}."
        if sum(stream.state is State.WAITING for stream in self.streams.values()) >= self.max_waiting:
            return "busy", "All places are taken and the queue is full. Please try again in a few seconds."
        try:
            check(request.sampling)
        except InvalidRequest as wrong:
            return "invalid_request", str(wrong)
        return None

    def _prepare(self, stream: Stream) -> None:
        """Have the next piece's prompt made."""
        model, request = self.worker.model, stream.request
        rest = None if stream.pieces is None else deque(stream.pieces)

        def make() -> tuple[deque[str], Prompt]:
            texts = deque(model.split(request.text)) if rest is None else rest
            return texts, model.preprocess(texts.popleft(), request.voice)

        stream.preparing = True
        job = self._prompts.submit(make)
        job.add_done_callback(lambda done: self._inbox.put(partial(self._prepared, stream, done)))

    def _prepared(self, stream: Stream, done: Future[tuple[deque[str], Prompt]]) -> None:
        if stream.over:
            return
        stream.preparing = False
        if error := done.exception():
            self._fail(stream, error)
            return
        stream.pieces, stream.prepared = done.result()
        stream.prompt_ready = stream.prompt_ready or self.clock()
        if self.worker.pages_for(stream.prepared) > self.worker.cache.pages:
            self._fail(stream, InvalidRequest("This text needs more memory than the engine was given. Please shorten it."))

    def _admit(self, stream: Stream) -> None:
        assert (prompt := stream.prepared) is not None
        try:
            self.worker.admit(self._slots[-1], prompt, stream.request.sampling, stream.seed, stream.frames)
        except Exception as error:  # noqa: BLE001  a prompt that the model cannot take harms its own stream only
            self._fail(stream, error)
            return
        stream.slot, stream.prepared = self._slots.pop(), None
        stream.piece = Piece(prompt, self.worker.model.detokenizer.new_state(stream.seed + stream.frames), prompt.known)
        if stream.state is State.WAITING:
            stream.state = State.STARTING
        if stream.pieces:
            self._prepare(stream)

    def _next_piece(self, stream: Stream) -> None:
        """The piece is spoken. What follows enters by the same door, ahead of all who came later."""
        assert stream.piece is not None
        self._leave(stream)
        if not (stream.preparing or stream.prepared):
            self._end(stream, State.DONE)

    def _leave(self, stream: Stream, failed: bool = False) -> None:
        if stream.piece:
            self.worker.release(stream.slot, failed)
            self._slots.append(stream.slot)
            stream.piece, stream.slot = None, -1

    def _fail(self, stream: Stream, error: BaseException) -> None:
        expected = isinstance(error, InvalidRequest)
        if not expected:
            log.error("stream %s failed", stream.id, exc_info=error)
        self._end(stream, State.FAILED)
        message = (
            str(error) if expected else "The model failed on this text. Other listeners are not affected; please try again."
        )
        stream.reply(Failed(stream=stream.id, code="invalid_request" if expected else "engine_error", message=message))

    def _end(self, stream: Stream, state: State, frames_after_cancel: int = 0) -> None:
        self._leave(stream, failed=state is State.FAILED)
        del self.streams[stream.id]
        stream.state = state
        self.counters.ended[state] += 1
        self.counters.frames_after_cancel += frames_after_cancel
        if state is not State.FAILED:
            stream.reply(
                Ended(stream=stream.id, reason=state.value, frames=stream.frames, frames_after_cancel=frames_after_cancel)
            )
