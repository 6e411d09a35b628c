"""What the rest of the program holds of an engine, wherever that engine runs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from voxrtc.messages.conversation import Forget, Hear, Wrote
from voxrtc.messages.engine import (
    Cancel,
    Chunk,
    Ended,
    EngineReply,
    EngineRequest,
    Extend,
    Failed,
    ForgetVoice,
    Generate,
    GetStats,
    Playout,
    PolicyName,
    Queued,
    SetPolicy,
    SetReplicas,
    Stats,
)
from voxrtc.messages.model import GetModels, GetUse, ModelInfo, Models, Progress, Unload, Unloaded, Use

Answer = Models | Stats | Unloaded | Use
News = Queued | Chunk | Wrote  # of a stream that goes on


class StreamFailed(Exception):
    """A stream ended in an error. `code` and `retry_after` are `Failed`'s; the text is meant for the listener."""

    def __init__(self, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code, self.retry_after = code, retry_after


class EngineLost(ConnectionError):
    """The engine's process is gone or not there yet; the supervisor is restarting it."""


class Transport(Protocol):
    """A way to an engine. `connect` names who takes replies and who is told of a loss, on the caller's event loop.

    Once it is there it says `Watch`, so that the engine's `Progress` is known from then on.
    """

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None: ...

    def send(self, request: EngineRequest) -> None:
        """Never blocks. Raises `EngineLost` when nothing is there to take it."""

    async def close(self) -> None: ...


class EngineClient:
    """One engine: generate, cancel, report playout, ask. Used from one event loop.

    `progress` is the engine's latest word on its model, None while there is no engine. `info` says what the model is, from
    the moment it was ready, also while its engine is restarted.
    """

    def __init__(self, transport: Transport) -> None:
        self.progress: Progress | None = None
        self.info: ModelInfo | None = None
        self._transport = transport
        self._streams: dict[str, asyncio.Queue[News | Ended | Failed]] = {}
        self._questions: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count()
        self._changed = asyncio.Event()  # set, and replaced, whenever `progress` changes
        self._policy: PolicyName | None = None  # wished for
        transport.connect(self._on_reply, self._on_lost)

    @property
    def state(self) -> str:
        """The state of `progress`; empty while there is no engine."""
        return self.progress.state if self.progress else ""

    async def generate(self, request: Generate) -> AsyncGenerator[News, None]:
        """The stream's sound as it is made, and its words where the model writes them; before that its places in the queue.

        Leaving the iteration early cancels the stream.
        The queue behind it is bounded by the engine, which pauses a stream that is far ahead of its `Playout`.
        Raises `StreamFailed`.
        """
        assert request.stream not in self._streams, f"stream id {request.stream} is in use"
        replies: asyncio.Queue[News | Ended | Failed] = asyncio.Queue()
        self._streams[request.stream] = replies
        over = False
        try:
            self._transport.send(request)
            while True:
                reply = await replies.get()
                over = isinstance(reply, Ended | Failed)
                if isinstance(reply, News):
                    yield reply
                elif isinstance(reply, Failed):
                    raise StreamFailed(reply.code, reply.message, reply.retry_after)
                else:
                    return
        except EngineLost as lost:
            over = True
            raise StreamFailed("engine_lost", str(lost)) from lost
        finally:
            self._streams.pop(request.stream, None)
            if not over:
                self._tell(Cancel(stream=request.stream))

    def extend(self, stream: str, text: str, final: bool = False) -> None:
        """More of the text of a stream that was begun without all of it. One that is over is left alone."""
        if stream in self._streams:
            self._tell(Extend(stream=stream, text=text, final=final))

    def hear(self, sound: Hear) -> None:
        """Give the engine what a person says, ahead of the `Generate` that answers it."""
        self._tell(sound)

    def unhear(self, hearing: str) -> None:
        """No stream will answer this sound any more."""
        self._tell(Forget(hearing=hearing))

    def cancel(self, stream: str) -> None:
        """Stop a stream; its `generate` ends quietly. Late chunks are dropped here."""
        if replies := self._streams.get(stream):
            while not replies.empty():
                replies.get_nowait()
            replies.put_nowait(Ended(stream=stream, reason="cancelled", frames=0))
            self._streams.pop(stream)
            self._tell(Cancel(stream=stream))

    def speaks(self, stream: str) -> bool:
        """Whether `generate` goes on for this stream."""
        return stream in self._streams

    def report(self, playout: Playout) -> None:
        """Tell the scheduler how far a listener is."""
        self._tell(playout)

    def forget_voice(self, digest: str) -> None:
        """Have what was made of a recording dropped: `Reference.digest`."""
        self._tell(ForgetVoice(digest=digest))

    def plan_by(self, policy: PolicyName) -> None:
        """Have the engine plan by this policy from its next step on, also one that is started later."""
        self._policy = policy
        self._tell(SetPolicy(policy=policy))

    def resize(self, replicas: int) -> None:
        """Have so many replicas of an engine that is a cluster of them."""
        self._tell(SetReplicas(count=replicas))

    async def models(self) -> list[ModelInfo]:
        """The loaded model, from the engine's own loop. Raises `EngineLost` when there is none that is ready."""
        reply = await self._ask(GetModels(call=next(self._numbers)))
        assert isinstance(reply, Models)
        return reply.models

    async def stats(self) -> Stats:
        """Counters and present load. Raises `EngineLost` as `models` does."""
        reply = await self._ask(GetStats(call=next(self._numbers)))
        assert isinstance(reply, Stats)
        return reply

    async def unload(self) -> int:
        """Have the engine take no more streams, so that its process can be ended.

        It refuses while it has streams, of whichever client; returns how many. Raises `EngineLost`.
        """
        reply = await self._ask(Unload(call=next(self._numbers)))
        assert isinstance(reply, Unloaded)
        return reply.live

    async def use(self) -> Use:
        """Who uses the engine, and what it holds. Raises `EngineLost`."""
        reply = await self._ask(GetUse(call=next(self._numbers)))
        assert isinstance(reply, Use)
        return reply

    def forget(self) -> None:
        """The engine was ended for good: what its model was is of the past, though it could not say so itself."""
        self.info = None
        self._moved(None)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds` is true of `progress`."""
        while not holds():
            await self._changed.wait()

    async def close(self) -> None:
        """Let go of the engine; open streams end with `StreamFailed`."""
        self._on_lost()
        await self._transport.close()

    def _tell(self, request: EngineRequest) -> None:
        try:
            self._transport.send(request)
        except EngineLost:
            pass  # a lost engine has no stream left to cancel or to pace; `_on_lost` tells the listeners

    async def _ask(self, question: GetModels | GetStats | GetUse | Unload) -> Answer:
        if isinstance(question, GetModels | GetStats) and (self.progress is None or self.progress.state != "ready"):
            words = self.progress.words if self.progress else "starting"
            raise EngineLost(f"The model is not ready ({words}).")  # nobody would answer
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._questions[question.call] = future
        try:
            self._transport.send(question)
            return await future
        finally:
            del self._questions[question.call]

    def _on_reply(self, reply: EngineReply) -> None:
        if isinstance(reply, Progress):
            if reply.state != "loading":  # while it loads again, it is still what it was
                self.info = reply.info
            self._moved(reply)
            if reply.state == "ready" and self._policy:
                self._tell(SetPolicy(policy=self._policy))
        elif isinstance(reply, Models | Stats | Unloaded | Use):
            if (future := self._questions.get(reply.call)) and not future.done():
                future.set_result(reply)
        elif replies := self._streams.get(reply.stream):
            replies.put_nowait(reply)

    def _on_lost(self) -> None:
        for stream, replies in self._streams.items():
            replies.put_nowait(Failed(stream=stream, code="engine_lost", message=LOST))
        for future in self._questions.values():
            if not future.done():
                future.set_exception(EngineLost(LOST))
        self._moved(None)

    def _moved(self, progress: Progress | None) -> None:
        self.progress = progress
        self._changed.set()
        self._changed = asyncio.Event()


LOST = "The speech engine stopped; it is being restarted. Please try again in a few seconds."
