"""`POST /v1/audio/speech`: OpenAI's request, answered with sound as it is made."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, closing
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from voxrtc import logs
from voxrtc.api import contract, errors
from voxrtc.api.asked import InputAudio, conversation, heard, read_input
from voxrtc.api.encoders import ENCODERS, Encoder
from voxrtc.api.forms import RecordingRoute
from voxrtc.api.recording import read_recording
from voxrtc.api.way import Way
from voxrtc.chat.choice import is_recorded
from voxrtc.chat.session_settings import MAX_INSTRUCTIONS
from voxrtc.engine.client import StreamFailed
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.conversation import Wrote
from voxrtc.messages.engine import Chunk, Generate, Playout, Queued, Reference

MAX_INPUT = 10_000  # characters: about twelve minutes of speech
MAX_REF_TEXT = 1_000

log = logging.getLogger(__name__)
# Of their own, so that nothing else that is slow stands before sound; a second of it takes 1 to 7 ms.
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="speech-encoder")


# What the schema cannot read off the types
_SOMETHING_TO_SAY: dict[str, Any] = {"required": ["input"], "properties": {"input": {"pattern": r"\S"}}}
_VOICE = {"type": "string", "maxLength": 200}
_OWN = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}


class SpeechRequest(BaseModel):
    """OpenAI's fields. No model named: the default one. `instructions` say how to speak; models that take none ignore them.

    Two more, as vLLM-Omni names them: `ref_audio` is a recording of the voice to speak with, a sound file in base64 or as a
    `data:` URL, and `ref_text` what is said in it.

    A model that hears is asked `input`, and answers. It may be asked in sound: `input_audio`, as in OpenAI's chat completions,
    alone or ahead of a text; `instructions` say how to answer.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [_SOMETHING_TO_SAY, {"required": ["input_audio"]}]})

    model: str = Field("", max_length=200)
    input_audio: InputAudio | None = None
    input: str = Field("", max_length=MAX_INPUT, validate_default=True)
    voice: Annotated[str, WithJsonSchema({"anyOf": [_VOICE, _OWN], "default": "default"})] = Field("default", max_length=200)
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: float = Field(1.0, json_schema_extra={"const": 1.0})
    instructions: str = Field("", max_length=MAX_INSTRUCTIONS)
    stream_format: Literal["audio", "sse"] = "audio"
    ref_audio: str | None = None
    ref_text: str = Field("", max_length=MAX_REF_TEXT)

    @field_validator("voice", mode="before")
    @classmethod
    def _named(cls, voice: Any) -> Any:
        """OpenAI names a voice of one's own by an object."""
        return voice["id"] if isinstance(voice, dict) and voice.keys() == {"id"} else voice

    @field_validator("input")
    @classmethod
    def _speakable(cls, text: str, others: ValidationInfo) -> str:
        if not text.strip() and not others.data.get("input_audio"):
            raise ValueError("There is no text to speak.")
        return text

    @field_validator("speed")
    @classmethod
    def _own_pace(cls, speed: float) -> float:
        if speed != 1.0:
            raise ValueError("Only 1.0 is supported: a change of speed that keeps the pitch is not there yet.")
        return speed


def router(engines: Fleet, recorded: Callable[[str], Reference]) -> APIRouter:
    """The route over the engines. `recorded` is a voice of somebody's own, by its id; it raises `ApiError`."""
    routes = APIRouter(tags=["speech"], route_class=RecordingRoute)

    kinds = {kind.media_type: contract.BINARY for kind in ENCODERS.values()} | {"text/event-stream": contract.EVENTS}
    sounds = contract.sends(kinds, about="The sound, as it is made.", X_Request_Id="The stream's name, as in the log.")
    told = sounds | contract.fails(_404="There is no such model or voice.", _503="No place, or the model is not ready.")

    @routes.post("/v1/audio/speech", response_class=StreamingResponse, responses=told)
    async def speak(request: SpeechRequest, http: Request) -> Speech:
        way, reference = Way(time.monotonic(), http.headers), None
        if request.ref_audio is not None:
            reference = await asyncio.to_thread(read_recording, request.ref_audio, request.ref_text)
        elif is_recorded(request.voice):
            reference = recorded(request.voice)
        stream, hears = f"http_{uuid.uuid4().hex}", engines.hears(request.model)
        said = await read_input(engines, request.model, request.input_audio, stream)
        generate = Generate(
            stream=stream,
            text=request.input,
            accepted=time.monotonic(),
            model=request.model,
            voice=request.voice,
            reference=reference,
            instructions=request.instructions,
            conversation=conversation(request.instructions, said, request.input) if hears else (),
        )
        logs.about(stream=generate.stream)
        kind = ENCODERS[request.response_format]
        parts: AsyncGenerator[Queued | Wrote | bytes] = sound(engines, generate, kind, way)
        if said:
            parts = heard(engines, request.model, said, parts)
        if request.stream_format == "sse":
            return Speech(generate.stream, events(parts), "text/event-stream")
        return Speech(generate.stream, silently(parts), kind.media_type)

    return routes


async def sound(engines: Fleet, request: Generate, kind: type[Encoder], way: Way) -> AsyncGenerator[Queued | Wrote | bytes]:
    """The stream in one format; each part is asked for when the listener has taken the one before.

    That also makes this listener's playout clock: it is taken to play from the first part on, at the speed of sound, what
    it has got. What it has not taken holds the stream back instead of filling memory. If the stream has to wait, its places
    in the queue come before the sound; words that the model writes itself come between. Raises `StreamFailed`.
    """
    encoder: Encoder | None = None
    head, taken, began = b"", 0.0, 0.0
    async with aclosing(engines.generate(request)) as replies:
        with way.traced(request, engines.named(request.model), kind.__name__.lower()), ExitStack() as closing_encoder:
            async for reply in replies:
                if not isinstance(reply, Chunk):
                    yield reply
                    continue
                if encoder is None:
                    encoder = closing_encoder.enter_context(closing(kind(reply.sample_rate)))
                    head, began, way.timing = encoder.header(), time.monotonic(), reply.timing
                yield head + way.sounds(await _work(encoder, encoder.encode, reply.pcm))
                head, taken = b"", taken + _seconds(reply)
                now = time.monotonic()
                played = min(taken, now - began)
                engines.report(Playout(stream=request.stream, played=played, at=now, running=True, taken=taken))
            if encoder is None:
                raise StreamFailed("engine_error", "The engine made no sound of this text.")
            yield way.sounds(await _work(encoder, encoder.finish))


async def silently(parts: AsyncGenerator[Queued | Wrote | bytes]) -> AsyncGenerator[bytes]:
    """The sound alone: a plain answer has no place to tell of waiting and words, and keeps its status for what comes of it."""
    async with aclosing(parts):
        async for part in parts:
            if isinstance(part, bytes):
                yield part


async def events(parts: AsyncGenerator[Queued | Wrote | bytes]) -> AsyncGenerator[bytes]:
    """The same bytes as server-sent events: `speech.audio.delta` with base64, and `speech.audio.done` at the end.

    Before them `voxrtc.queue`, while the stream waits for its turn. The words of a model that answers by itself are
    `transcript.text.delta` and, all of them, `transcript.text.done`. A failure amid it all is an `error`, and nothing follows.
    """
    words, begun = "", False
    async with aclosing(parts):
        try:
            async for part in parts:
                begun = True
                if isinstance(part, Queued):
                    yield _event({"type": "voxrtc.queue", "position": part.position, "wait_ms": round(1000 * part.wait)})
                elif isinstance(part, Wrote):
                    words += part.text
                    yield _event({"type": "transcript.text.delta", "delta": part.text})
                elif part:
                    yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(part).decode()})
        except StreamFailed as failure:
            if begun:  # else it is the answer's status
                yield _event({"type": "error", "error": {"code": failure.code, "message": str(failure)}})
            raise
    if words:
        yield _event({"type": "transcript.text.done", "text": words})
    yield _event({"type": "speech.audio.done"})


def _event(fields: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


async def _work(encoder: Encoder, step: Callable[..., bytes], *inputs: bytes) -> bytes:
    if not encoder.heavy:
        return step(*inputs)
    return await asyncio.get_running_loop().run_in_executor(_threads, step, *inputs)


def _seconds(chunk: Chunk) -> float:
    return len(chunk.pcm) / 2 / chunk.sample_rate


class Speech(StreamingResponse):
    """Sound over HTTP, which must not end well when the stream did not.

    Before the first part a failure is a proper status. After it the answer is left unfinished, so that the server
    closes the connection in the middle of the body and no client takes a fragment for the whole. A client that leaves
    ends the stream, also while it still waits for its first part; and so does one that reads nothing (`voxrtc.listening`).
    """

    def __init__(self, stream: str, parts: AsyncGenerator[bytes], media_type: str) -> None:
        # A buffering proxy (nginx honours this header) would turn streaming into one late download.
        super().__init__(parts, media_type=media_type, headers={"X-Request-Id": stream, "X-Accel-Buffering": "no"})
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        over = False
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_left, receive, group.cancel_scope)
            async with aclosing(self._parts):
                await self._deliver(scope, receive, send)
            over = True
            group.cancel_scope.cancel()
        if not over:
            log.info("its listener left")

    async def _deliver(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            part = await anext(self._parts)
        except StreamFailed as failure:
            await errors.response(errors.from_stream(failure))(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            async for part in self._parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except StreamFailed as failure:
            log.warning("cut short by %s: %s", failure.code, failure)
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel_when_left(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
