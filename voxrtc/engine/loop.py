"""The engine's loop: takes requests, asks the policy, runs the worker, hands over sound.

One thread steps the model. Beside it one thread detokenizes, one makes prompts and one hears what people say, so that nothing
of that stands in a step's way; their results come in through the same inbox as requests do. So all of a stream's bookkeeping
happens on one thread.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

import msgspec
import torch
from torch import Tensor

from voxrtc.engine.caution import Caution
from voxrtc.engine.costs import Costs
from voxrtc.engine.door import Door
from voxrtc.engine.precedence import listeners_first
from voxrtc.engine.prompts import Prompts
from voxrtc.engine.running import Running
from voxrtc.engine.scheduler import POLICIES, Policy, StepPlan, playout
from voxrtc.engine.snapshot import DEFAULT_CHUNKS, ChunkSizes, Counters, machine, stats, view
from voxrtc.engine.sounding import Sounding, next_chunk
from voxrtc.engine.stepping import Landed, Stepping
from voxrtc.engine.stream import Passage, Piece, State, Stream
from voxrtc.engine.warming import warm_up
from voxrtc.engine.words import Words
from voxrtc.engine.worker import Worker
from voxrtc.engine.writing import Writing
from voxrtc.messages.conversation import Forget, Hear, Wrote
from voxrtc.messages.engine import (
    Cancel,
    Ended,
    EngineReply,
    EngineRequest,
    Extend,
    Failed,
    ForgetVoice,
    Generate,
    GetStats,
    Playout,
    SetPolicy,
)
from voxrtc.messages.model import GetModels, ModelInfo, Models
from voxrtc.speechlm.base import InvalidRequest, Prompt, Turn

log = logging.getLogger(__name__)

Reply = Callable[[EngineReply], None]

NAP = 0.02  # seconds between looks at streams that rest because they are far ahead of their listeners


class Engine:
    """One model served to many listeners. `submit` from any thread; everything else happens on the engine's own."""

    def __init__(
        self,
        worker: Worker,
        info: ModelInfo,
        policy: Policy = playout,
        max_waiting: int = 64,
        chunks: ChunkSizes = DEFAULT_CHUNKS,
        clock: Callable[[], float] = time.monotonic,
        executor: Callable[[str], Executor] = lambda name: ThreadPoolExecutor(1, thread_name_prefix=name),
        on_crash: Callable[[], None] = lambda: None,
    ) -> None:
        self.worker, self.info, self.policy, self.chunks, self.clock = worker, info, policy, chunks, clock
        self.streams: dict[str, Stream] = {}
        self.counters = Counters(born=clock())
        self.costs, self.caution = Costs(), Caution()
        self._reserve = 0.0  # seconds that the detokenizer was given for what it does now
        self.door = Door(info, worker.model, max_waiting)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._slots = list(range(worker.slots))
        self._on_crash = on_crash
        self._stepping = Stepping(worker, clock, self._landed, self._stepped)
        self._sounding = Sounding(worker, executor("detokenizer"), self._inbox.put, clock, self._observe, self._sounded)
        self._prompts = Prompts(worker.model, self, executor, self._inbox.put)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._stopping = False

    # --- from other threads ---

    def start(self) -> None:
        """Begin stepping on a thread of its own, after a few sentences said to nobody. Raises what becomes of those."""
        try:
            warm_up(self)
        except BaseException:
            self.worker.sound.stop()  # the process may stay to tell why, and no other is to stay with it
            raise
        self._thread.start()

    def stop(self) -> None:
        """End after the present step; streams are left as they are."""
        self._inbox.put(self._stop)
        self._thread.join()
        self._sounding.stop()
        self._prompts.stop()

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        """Hand in a request. `reply` is called on the engine's thread and must not block."""
        self._inbox.put(partial(self._take, request, reply, self.clock()))

    def refusal(self, request: Generate) -> Failed | None:
        """From any thread: the refusal of a full queue, at once and not only after the present step."""
        if refusal := self.door.full(request):
            self._inbox.put(self._refused)
        return refusal

    # --- the loop ---

    def _stop(self) -> None:
        self._stopping = True

    def _refused(self) -> None:
        self.counters.ended[State.FAILED] += 1

    def _run(self) -> None:
        try:
            while not self._stopping:
                if not self.run_once() and not self._stopping:
                    self.wait()
        except BaseException:
            log.critical("the engine's bookkeeping broke", exc_info=True)
            self._on_crash()

    def wait(self) -> None:
        """Until something comes in, or may have changed."""
        resting = any(stream.piece for stream in self.streams.values()) and not self._sounding.busy
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
        share = self.counters.prompt_share
        room = machine(self.worker, self.costs, share, self._sounding.busy, self.chunks, self.caution.at(now))
        plan = listeners_first(self.policy, now, views, room)
        working = self._stepping.under_way or not plan.idle
        if working:
            self._execute(plan)
            self.counters.busy += (seconds := self.clock() - now)
            self.counters.paused += seconds * plan.paused
        self.door.tell(now, self.streams.values())
        return working

    def _execute(self, plan: StepPlan) -> None:
        for name in plan.dismiss:
            self._dismiss(self.streams[name])
        for name in plan.preempt:
            stream = self.streams[name]
            stream.evicted = self.worker.cache.evict(stream.slot)
            self.counters.preempted += 1
        for name in plan.admit:
            self._admit(self.streams[name])
        if plan.detokenize:
            self._reserve = plan.reserve
            self._sounding.begin([(self.streams[name], count) for name, count in plan.detokenize])
        parts = [*plan.prefill, *((name, 1) for name in plan.decode if not self._all_asked(name))]
        self._stepping.step([(self.streams[name], count) for name, count in parts])

    def _all_asked(self, name: str) -> bool:
        piece = self.streams[name].piece
        return piece is not None and piece.asked_for_all

    def _landed(self, step: Landed) -> None:
        """Learn from a step that is done."""
        self.counters.landed(step, expected=self.costs.step_seconds(step.streams, step.prompt_tokens))
        self.costs.stepped(step.seconds, step.sampling, step.streams, step.frames, step.prompt_tokens)

    def _stepped(self, stream: Stream, piece: Piece, result: tuple[Tensor, bool] | Exception) -> None:
        if isinstance(result, Exception):
            self.failed(stream, result)
        else:
            self._sampled(stream, piece, *result)

    def _sampled(self, stream: Stream, piece: Piece, frame: Tensor, last: bool) -> None:
        model, silent = self.worker.model, self.worker.model.silent(frame)
        piece.add(frame, last, model.passes(frame), silent)
        stream.frames += 1
        stream.frame_times.append(self.clock())
        stream.first_frame = stream.first_frame or stream.frame_times[-1]
        if piece.complete and piece.kept and stream.pieces:
            stream.remember(Turn(piece.text, torch.stack(piece.kept)), most=self.worker.model.cache.positions)
            self._prompts.next(stream)
        if piece.writing:
            self._write(stream, piece.writing, frame, silent, piece.complete)

    def _write(self, stream: Stream, writing: Writing, frame: Tensor, silent: bool, last: bool) -> None:
        try:
            text = writing.add(frame, silent, last)
        except Exception as error:  # noqa: BLE001  text that a model cannot read back harms its own stream only
            self.failed(stream, error)
            return
        if text:
            stream.reply(Wrote(stream=stream.id, text=text))

    # --- sound ---

    def _observe(self, seconds: float, streams: int, frames: int) -> None:
        self.costs.codec.observe(seconds, streams, frames)
        self.counters.calls += 1

    def _sounded(self, stream: Stream, piece: Piece, samples: Tensor | Exception, final: bool) -> None:
        if isinstance(samples, Exception):
            self.failed(stream, samples)
            return
        if len(samples):
            self._hand_over(stream, piece, samples, final)
        if final:
            self._next_piece(stream)

    def _hand_over(self, stream: Stream, piece: Piece, samples: Tensor, final: bool) -> None:
        now = self.clock()
        self._heed(stream, now)
        chunk = next_chunk(stream, piece, samples, final, self.worker.model.detokenizer.sample_rate, now)
        if (timing := chunk.timing) and not stream.request.continues:
            self.counters.sounded(timing.first_chunk, timing.first_chunk - timing.accepted)
        self.counters.chunks += 1
        stream.reply(chunk)

    def _heed(self, stream: Stream, now: float) -> None:
        """A chunk that comes late is a reason for caution, unless its listener waited for text, or stood for others."""
        excused = stream.request.background or (stream.running and not stream.running.exhausted)
        if not excused and (slack := stream.slack(now)) is not None:
            self.caution.handed_over(now, slack, self._reserve)

    # --- a stream's life ---

    def _take(self, request: EngineRequest, reply: Reply, at: float) -> None:
        match request:
            case Generate():
                self._begin(request, reply, at)
            case Extend():
                if stream := self.streams.get(request.stream):
                    self._prompts.extend(stream, request)
            case Hear():
                self._prompts.hearings.hear(request)
            case Forget():
                self._prompts.hearings.forget(request.hearing)
            case Cancel():
                if stream := self.streams.get(request.stream):
                    self._end(stream, State.CANCELLED, sum(when > at for when in stream.frame_times))
            case ForgetVoice():
                self._prompts.forget(request.digest)
            case Playout():
                if stream := self.streams.get(request.stream):
                    stream.clock.report(request)
            case SetPolicy():
                self.policy = POLICIES[request.policy]
            case GetModels():
                reply(Models(call=request.call, models=[self.info]))
            case GetStats():
                now = self.clock()
                known = self.counters, self.costs, self.caution.at(now), self.streams.values(), self.worker, self.policy
                reply(stats(request.call, *known, now))

    def _begin(self, request: Generate, reply: Reply, at: float) -> None:
        self.door.look(self.streams.values())
        voices = self.worker.model.voices
        if request.reference and request.voice not in voices:  # a recording's voice goes by a name of its own
            request = msgspec.structs.replace(request, voice=voices[0])
        if refusal := self.door.refusal(request, self.streams):
            self._refused()
            reply(refusal)
            return
        seed = request.sampling.seed
        stream = Stream(request, reply, at, random.getrandbits(62) if seed is None else seed)
        stream.running = None if request.final else Running(request.text)
        self.streams[stream.id] = stream
        self._prompts.begin(stream)

    def ready(self, stream: Stream, prompt: Prompt, passage: Passage) -> None:
        """Its next piece can be admitted (`Prompts`)."""
        stream.prepared, stream.passage = prompt, passage
        stream.prompt_ready = stream.prompt_ready or self.clock()
        if self.worker.most_pages(prompt) > self.worker.cache.pages:
            self.failed(stream, InvalidRequest("This text needs more memory than the engine was given. Please shorten it."))

    def grown(self, stream: Stream, before: Prompt, prompt: Prompt) -> None:
        """There is more of a piece (`Prompts`)."""
        if stream.prepared is before:
            stream.prepared = prompt
        elif stream.piece and stream.piece.prompt is before:
            stream.piece.grow(prompt)
            self.worker.grow(stream.slot, prompt)

    def exhausted(self, stream: Stream) -> None:
        """Nothing follows of its text (`Prompts`)."""
        if stream.prompt_ready:
            self._end_if_spoken(stream)
        else:
            self.failed(stream, InvalidRequest("There is nothing to say in this text."))

    def _admit(self, stream: Stream) -> None:
        if stream.evicted:
            self.worker.cache.restore(stream.slot, stream.evicted)
            stream.evicted = None
            return
        assert (prompt := stream.prepared) is not None
        try:
            self.worker.admit(self._slots[-1], prompt, stream.request.sampling, stream.seed, stream.frames)
            stream.piece = self._piece(stream, prompt)
        except Exception as error:  # noqa: BLE001  a prompt or a voice that the model cannot take harms its own stream only
            self.worker.release(self._slots[-1], failed=True)
            self.failed(stream, error)
            return
        stream.slot, stream.prepared = self._slots.pop(), None
        if stream.entered is None:
            stream.state, stream.entered = State.STARTING, self.clock()
        if not self.worker.model.remembers:
            self._prompts.next(stream)

    def _piece(self, stream: Stream, prompt: Prompt) -> Piece:
        """Raises whatever a model can, before anything is the stream's."""
        model, passage = self.worker.model, stream.passage
        before = model.detokenizer.before(voice := model.voice_of(prompt))
        state = self.worker.sound.begin(voice, stream.seed + stream.frames)
        kept: list[Tensor] | None = [] if model.remembers else None
        words = Words(prompt.words, prompt.characters, model.frame_rate, stream.delivered, passage.before)
        writing = Writing(model.written, model.frame_rate) if model.hears else None
        return Piece(passage.text, prompt, state, words, prompt.known, before, kept=kept, writing=writing)

    def _next_piece(self, stream: Stream) -> None:
        """The piece is spoken. What follows enters by the same door, ahead of all who came later."""
        assert stream.piece is not None
        self._leave(stream)
        self._end_if_spoken(stream)

    def _end_if_spoken(self, stream: Stream) -> None:
        """Unless something of it is still to be said, or may come."""
        if not (stream.piece or stream.preparing or stream.prepared or (stream.running and not stream.running.exhausted)):
            self._end(stream, State.DONE)

    def _leave(self, stream: Stream, failed: bool = False) -> None:
        if stream.piece:
            self._sounding.end(stream.piece)
            self.worker.release(stream.slot, failed)
            self._slots.append(stream.slot)
            stream.piece, stream.slot, stream.evicted = None, -1, None

    def failed(self, stream: Stream, error: BaseException) -> None:
        expected = isinstance(error, InvalidRequest)
        if not expected:
            log.error("a stream failed", exc_info=error, extra={"stream": stream.id})
        self._end(stream, State.FAILED)
        message = (
            str(error) if expected else "The model failed on this text. Other listeners are not affected; please try again."
        )
        stream.reply(Failed(stream=stream.id, code="invalid_request" if expected else "engine_error", message=message))
        if not expected:
            self.worker.check()  # what it raises ends the engine, which is started again

    def _dismiss(self, stream: Stream) -> None:
        self._end(stream, State.DISMISSED)
        stream.reply(Failed(stream=stream.id, code="gave_way", message="Somebody who listens needed the place."))

    def _end(self, stream: Stream, state: State, frames_after_cancel: int = 0) -> None:
        self._leave(stream, failed=state is State.FAILED)
        del self.streams[stream.id]
        stream.state = state
        self.counters.ended[state] += 1
        if stream.entered is not None:
            self.door.stays.observe(self.clock() - stream.entered)
        self.counters.frames_after_cancel += frames_after_cancel
        if state in (State.DONE, State.CANCELLED):
            stream.reply(
                Ended(stream=stream.id, reason=state.value, frames=stream.frames, frames_after_cancel=frames_after_cancel)
            )
