"""One response: its text goes to the engine, piece by piece, the sound to the track, and the client hears of every step."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from voxrtc.chat import events
from voxrtc.chat.heard import Heard
from voxrtc.chat.reply import ReplyFailed
from voxrtc.engine.client import StreamFailed
from voxrtc.engine.fleet import Fleet
from voxrtc.messages import Chunk, Generate, Playout, Queued, Timing
from voxrtc.rtc.playout import Clock
from voxrtc.rtc.track import PlayoutTrack, Utterance

log = logging.getLogger(__name__)


class Response:
    """Speaks the pieces of a text, one stream of the engine after another, which are one stream on the track, named by its id.

    `request` is what all pieces have in common; its text is not used. It is over for its client (`response.done`) when all
    its sound is made; the track may go on playing it.
    """

    def __init__(
        self,
        send: Callable[[str], None],
        request: Generate,
        pieces: AsyncGenerator[str, None],
        item_id: str,
        previous: str | None,  # the item before it
        metadata: dict[str, str] | None,
    ) -> None:
        self.id = request.stream
        self.timing: Timing | None = None
        self._send, self._request, self._pieces, self._metadata = send, request, pieces, metadata
        self._heard = Heard()
        self._told = 0  # characters heard, as the client knows
        self._stream = ""  # of the engine, that makes the present piece
        self._before = (0.0, 0)  # seconds of sound and characters before the present piece
        self._item_id, self._previous = item_id, previous
        self._track: PlayoutTrack | None = None
        self._utterance: Utterance | None = None
        self._task: asyncio.Task[None] | None = None
        self._over: Callable[[Response], None] | None = None  # None once it is over

    @property
    def in_conversation(self) -> bool:
        """Breaking in on it is part of a conversation: it sounds, or follows itself upon an interruption.

        Who only gives up waiting and asks anew is a stranger still.
        """
        return self.timing is not None or self._request.priority

    @property
    def text(self) -> str:
        """As far as it has begun to be made."""
        return self._heard.text

    def heard(self, clock: Clock) -> str:
        """The words that were heard when the track had come so far."""
        return self.text[: self._heard.characters(clock.played)]

    def passed(self, clock: Clock, last: bool = False) -> None:
        """The track has come so far, and ends there if this is the `last` reading: tell the client what was heard by now."""
        characters = self._heard.characters(clock.played)
        if characters > self._told or last:
            self._told = characters
            place = {"response_id": self.id, "item_id": self._item_id}
            self._send(events.event("voxrtc.heard", **place, characters=characters))
        self._look_ahead()

    def playout(self, clock: Clock) -> Playout:
        """The clock of the track as the engine wants to know it, of the present piece."""
        played = max(0.0, clock.played - self._before[0])
        return Playout(stream=self._stream, played=played, at=time.monotonic(), running=clock.running and played > 0)

    def start(self, engines: Fleet, track: PlayoutTrack, over: Callable[[Response], None]) -> None:
        """Announce it and begin; `over` is called once, after `response.done`."""
        self._over, self._track = over, track
        self._announce()
        self._task = asyncio.get_running_loop().create_task(self._speak(engines, track))
        self._task.add_done_callback(self._ended)

    def cancel(self, reason: str = "client_cancelled") -> None:
        """Stop generating, now: it is over when this returns. What the track already has plays out, or is flushed."""
        if self._utterance:
            self._utterance.end()
        if self._task:
            self._task.cancel()
        self._conclude("cancelled", {"type": "cancelled", "reason": reason})

    def stages(self, sent: float) -> dict[str, float]:
        """`voxrtc.timing`: milliseconds of each stage up to the first sample `sent`; they add up to `total`.

        `reply` is waiting for the first words; `queue` all waiting for the engine, before and after the prompt; `track` the
        way from the engine to here, encoding, and the wait for the next packet's turn.
        """
        assert self.timing
        t, asked = self.timing, self._request.accepted
        seconds = {
            "reply": t.accepted - asked,
            "queue": t.received - t.accepted + t.first_step - t.prompt_ready,
            "prompt": t.prompt_ready - t.received,
            "first_frame": t.first_frame - t.first_step,
            "first_chunk": t.first_chunk - t.first_frame,
            "track": sent - t.first_chunk,
            "total": sent - asked,
        }
        return {stage: round(1000 * each, 2) for stage, each in seconds.items()}

    async def _speak(self, engines: Fleet, track: PlayoutTrack) -> None:
        async with aclosing(self._pieces) as pieces:
            async for text in pieces:
                await self._say(self._next(text), engines, track)
        if self._utterance:
            await self._utterance.finish()

    def _next(self, text: str) -> Generate:
        """The next piece's request. Those after the first belong to a stream that sounds: they go before strangers."""
        first = not self._stream
        delta = text if first else f" {text}"
        self._send(events.event("response.output_audio_transcript.delta", **self._place(), delta=delta))
        self._before = self._heard.made, len(self.text) + len(delta) - len(text)
        self._heard.say(delta)
        self._stream = self.id if first else f"{self.id}.{self._before[1]}"
        priority = self._request.priority or not first
        return msgspec.structs.replace(
            self._request, stream=self._stream, text=text, accepted=time.monotonic(), priority=priority
        )

    async def _say(self, request: Generate, engines: Fleet, track: PlayoutTrack) -> None:
        async with aclosing(engines.generate(request)) as replies:
            async for reply in replies:
                if isinstance(reply, Queued):
                    self._tell_place(reply)
                    continue
                if self._utterance is None:
                    self.timing = reply.timing
                    self._utterance = await track.begin(self.id)
                self._learn(reply)
                if not await self._utterance.write(reply.pcm, reply.sample_rate):
                    raise asyncio.CancelledError  # flushed: what follows would not be heard
        self._heard.close()

    def _learn(self, chunk: Chunk) -> None:
        """When the words of its sound are spoken, and what is known of later ones."""
        self._heard.sounds(len(chunk.pcm) / 2 / chunk.sample_rate)
        seconds, characters = self._before
        for each in chunk.spoken:
            self._heard.spoken(seconds + each.begin, seconds + each.end, characters + each.characters)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Have the track say when the next word is heard."""
        if self._track and (at := self._heard.next()) is not None:
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
        if isinstance(failure, StreamFailed):
            code, message = failure.code, str(failure)
        elif isinstance(failure, ReplyFailed):
            code, message = "reply_failed", str(failure)
        else:
            log.error("a response failed", exc_info=failure)
            code, message = "internal_error", "This response failed inside the server; its log says why."
        kind = "invalid_request_error" if code in ("invalid_request", "model_not_found") else "server_error"
        self._send(events.error(code, message, kind=kind))
        self._conclude("failed", {"type": "failed", "error": {"type": kind, "code": code, "message": message}})

    # --- what the client is told ---

    def _announce(self) -> None:
        self._send(events.event("response.created", response=self._body("in_progress", [])))
        item = self._item("in_progress", [])
        self._send(events.event("response.output_item.added", response_id=self.id, output_index=0, item=item))
        self._send(events.event("conversation.item.added", previous_item_id=self._previous, item=item))
        part = {"type": "output_audio", "transcript": ""}
        self._send(events.event("response.content_part.added", **self._place(), part=part))

    def _tell_place(self, place: Queued) -> None:
        wait_ms = round(1000 * place.wait)
        self._send(events.event("voxrtc.queue", response_id=self.id, position=place.position, wait_ms=wait_ms))

    def _conclude(self, status: str, details: dict[str, Any] | None = None) -> None:
        if self._over is None:
            return
        over, self._over = self._over, None
        text = self.text
        part = {"type": "output_audio", "transcript": text}
        item = self._item("completed" if status == "completed" else "incomplete", [part])
        self._send(events.event("response.output_audio.done", **self._place()))
        self._send(events.event("response.output_audio_transcript.done", **self._place(), transcript=text))
        self._send(events.event("response.content_part.done", **self._place(), part=part))
        self._send(events.event("conversation.item.done", previous_item_id=self._previous, item=item))
        self._send(events.event("response.output_item.done", response_id=self.id, output_index=0, item=item))
        self._send(events.event("response.done", response=self._body(status, [item], details)))
        over(self)

    def _place(self) -> dict[str, Any]:
        return {"response_id": self.id, "item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return events.message_item(self._item_id, "assistant", status, content)

    def _body(self, status: str, output: list[dict[str, Any]], details: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": output,
            "output_modalities": ["audio"],
            "metadata": self._metadata,
            "audio": {"output": {"voice": self._request.voice}},
        }
