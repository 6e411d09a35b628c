"""One response: its text goes to the engine, piece by piece, the sound to the track, and the client hears of every step."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from voxrtc import logs, traces
from voxrtc.chat import events
from voxrtc.chat.events import EventError
from voxrtc.chat.outputs import Outputs
from voxrtc.chat.reply import Delta, Own, Part, ReplyCut, ReplyFailed, ToolCall
from voxrtc.chat.sent_track import AnyTrack, AnyUtterance
from voxrtc.chat.spans import way
from voxrtc.chat.stages import Marks
from voxrtc.engine.client import StreamFailed
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.conversation import ConversationTurn, Wrote
from voxrtc.messages.engine import Chunk, Generate, Playout, Queued, Timing
from voxrtc.rtc.playout import Clock

log = logging.getLogger(__name__)


class Response:
    """Puts out the parts of an answer: pieces of text, one stream of the engine after another, which are one stream on the
    track, named by its id; then calls. Text that is not to be spoken needs neither engine nor track.

    `request` is what all pieces have in common; its text is not used. It is over for its client (`response.done`) when all
    its sound is made; the track may go on playing it.
    """

    def __init__(
        self,
        send: Callable[[str], None],
        request: Generate,
        marks: Marks,
        parts: AsyncGenerator[Part, None],
        outputs: Outputs,
        metadata: dict[str, str] | None,
    ) -> None:
        self.id, self.model, self.voice = request.stream, request.model, request.voice
        self.timing: Timing | None = None
        self.outputs = outputs
        self._send, self._request, self._parts, self._metadata = send, request, parts, metadata
        self._marks = marks
        self.sent: float | None = None  # its first sample, when
        self._failure = ""
        self._ids = logs.ids()
        self.heard = 0  # characters, as far as `passed` has seen
        self._stream = ""  # of the engine, that makes the present piece
        self._before = (0.0, 0)  # seconds of sound and characters of text before that
        self._track: AnyTrack | None = None
        self._utterance: AnyUtterance | None = None
        self._task: asyncio.Task[None] | None = None
        self._over: Callable[[Response], None] | None = None  # None once it is over

    @property
    def in_conversation(self) -> bool:
        """Breaking in on it is part of a conversation: it sounds, or follows itself upon an interruption.

        Who only gives up waiting and asks anew is a stranger still.
        """
        return self.timing is not None or self._request.priority

    @property
    def sounds(self) -> bool:
        """The track has begun to play it, and will tell how far it came."""
        return self._utterance is not None

    def playout(self, clock: Clock) -> Playout:
        """The clock of the track as the engine wants to know it, of the present piece."""
        played = max(0.0, clock.played - self._before[0])
        return Playout(stream=self._stream, played=played, at=time.monotonic(), running=clock.running and played > 0)

    def passed(self, clock: Clock) -> bool:
        """Whether more words are `heard` now that the track has come so far. It will say when the next is."""
        before, self.heard = self.heard, max(self.heard, self.outputs.voiced.characters(clock.played))
        self._look_ahead()
        return self.heard > before

    def start(self, engines: Fleet, track: AnyTrack, over: Callable[[Response], None]) -> None:
        """Announce it and begin; `over` is called once, after `response.done`."""
        self._over, self._track = over, track
        self._send(events.event("response.created", response=self._body("in_progress")))
        self._task = asyncio.get_running_loop().create_task(self._speak(engines, track))
        self._task.add_done_callback(self._ended)

    def cancel(self, reason: str = "client_cancelled") -> None:
        """Stop generating, now: it is over when this returns. What the track already has plays out, or is flushed."""
        if self._utterance:
            self._utterance.end()
        if self._task:
            self._task.cancel()
        self._conclude("cancelled", {"type": "cancelled", "reason": reason})

    def stages(self, sent: float) -> dict[str, float | None]:
        """Where the time went until its first sample was `sent`: `Marks.told`."""
        assert self.timing
        self.sent = sent
        return self._marks.told(self.timing, sent)

    def trace(self, underruns: int = 0) -> None:
        """It was played to its end, or will not be played."""
        about: dict[str, str | int] = {
            **self._ids,
            "model": self.model,
            "response": self.id,
            "underruns": underruns,
            "characters_heard": self.heard,
        }
        traces.record(way(self._marks, self.timing, self.sent, time.monotonic()), about, self._failure)

    async def _speak(self, engines: Fleet, track: AnyTrack) -> None:
        logs.about(stream=self.id)
        async with aclosing(self._parts) as parts:
            async for part in parts:
                match await self._flow(part, engines, track) if isinstance(part, Delta) else part:
                    case None:
                        break
                    case ToolCall() as call:
                        self.outputs.call(call)
                    case Own(turns=turns):
                        await self._say(self._all(turns), engines, track)
                    case words if self.outputs.modality == "text":
                        self.outputs.say(words)
                    case words:
                        await self._say(self._next(words), engines, track)
        if self._utterance:
            await self._utterance.finish()

    async def _flow(self, first: Delta, engines: Fleet, track: AnyTrack) -> ToolCall | None:
        """Speak a text while it comes, in one stream of the engine; returns what follows it."""
        request = self._next(first.text, final=False)
        rest = asyncio.create_task(self._feed(engines))
        try:
            await self._say(request, engines, track)
            return await rest
        finally:
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)

    async def _feed(self, engines: Fleet) -> ToolCall | None:
        """Give the engine the rest of the text; what came of it is spoken, also where it breaks off."""
        try:
            async for part in self._parts:
                if isinstance(part, ToolCall):
                    return part
                assert isinstance(part, Delta)
                self.outputs.voiced.say(part.text)
                self.outputs.say(part.text)
                engines.extend(self._stream, part.text)
            return None
        finally:
            engines.extend(self._stream, "", final=True)

    def _next(self, text: str, final: bool = True) -> Generate:
        """The next piece's request. Those after the first belong to a stream that sounds: they go before strangers."""
        voiced, first = self.outputs.voiced, not self._stream
        delta = text if first else f" {text}"
        self._before = voiced.seconds, len(voiced.text) + len(delta) - len(text)
        voiced.say(delta)
        self.outputs.say(delta)
        self._stream = self.id if first else f"{self.id}.{self._before[1]}"
        priority = self._request.priority or not first
        return msgspec.structs.replace(
            self._request,
            stream=self._stream,
            text=text,
            accepted=time.monotonic(),
            priority=priority,
            continues=not first,
            final=final,
        )

    def _all(self, turns: tuple[ConversationTurn, ...]) -> Generate:
        """The request for an answer that is one piece, whose words the model tells itself."""
        self._stream = self.id
        return msgspec.structs.replace(self._request, conversation=turns, accepted=time.monotonic())

    async def _say(self, request: Generate, engines: Fleet, track: AnyTrack) -> None:
        async with aclosing(engines.generate(request)) as replies:
            async for reply in replies:
                if isinstance(reply, Queued):
                    self._tell_place(reply)
                    continue
                if isinstance(reply, Wrote):
                    self.outputs.voiced.say(reply.text)
                    self.outputs.say(reply.text)
                    continue
                if self._utterance is None:
                    self.outputs.begin()
                    self.timing = reply.timing
                    self._utterance = await track.begin(self.id)
                self._learn(reply)
                if not await self._utterance.write(reply.pcm, reply.sample_rate):
                    raise asyncio.CancelledError  # flushed: what follows would not be heard
        self.outputs.voiced.end()
        self._look_ahead()

    def _learn(self, chunk: Chunk) -> None:
        """Of a sound, and when words are spoken."""
        voiced, (seconds, characters) = self.outputs.voiced, self._before
        self.outputs.keep(self.model, chunk.frames)
        voiced.add(len(chunk.pcm) / 2 / chunk.sample_rate)
        for each in chunk.spoken:
            voiced.spoken(seconds + each.begin, seconds + each.end, characters + each.characters)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Have the track tell when the next word is heard."""
        if self._track and (at := self.outputs.voiced.next(self.heard)) is not None:
            self._track.remind(self.id, at)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task is done: well, badly, or because of `cancel`. A failure is told in an `error` event, too."""
        if self._utterance:
            self._utterance.end()
        if task.cancelled():
            return self.cancel()
        failure = task.exception()
        if failure is None:
            return self._conclude("completed")
        if isinstance(failure, ReplyCut):
            return self._conclude("incomplete", {"type": "incomplete", "reason": "max_output_tokens"})
        if isinstance(failure, StreamFailed | EventError):
            code, message = failure.code, str(failure)
        elif isinstance(failure, ReplyFailed):
            code, message = "reply_failed", str(failure)
        else:
            log.error("a response failed", exc_info=failure, extra={**self._ids, "stream": self.id})
            code, message = "internal_error", "This response failed inside the server; its log says why."
        self._failure = code
        kind = "invalid_request_error" if code in ("invalid_request", "model_not_found", "nothing_to_say") else "server_error"
        self._send(events.error(code, message, kind=kind))
        self._conclude("failed", {"type": "failed", "error": {"type": kind, "code": code, "message": message}})

    # --- what the client is told, besides what is put out ---

    def _tell_place(self, place: Queued) -> None:
        wait_ms = round(1000 * place.wait)
        self._send(events.event("voxrtc.queue", response_id=self.id, position=place.position, wait_ms=wait_ms))

    def _conclude(self, status: str, details: dict[str, Any] | None = None) -> None:
        if self._over is None:
            return
        over, self._over = self._over, None
        level = logging.DEBUG if self._request.background else logging.INFO
        log.log(level, "a response of %s is %s", self.model, status, extra={**self._ids, "stream": self.id})
        if not self.sounds:
            self.outputs.cut(0.0)
        self._request = msgspec.structs.replace(self._request, reference=None)  # no recording is kept beyond its use
        self.outputs.conclude("completed" if status == "completed" else "incomplete")
        self._send(events.event("response.done", response=self._body(status, details)))
        over(self)

    def _body(self, status: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": self.outputs.wire(),
            "output_modalities": [self.outputs.modality],
            "metadata": self._metadata,
            "audio": {"output": {"voice": self._request.voice}},
            "usage": None,
        }
