"""A whole utterance at once, for callers that take no stream."""

from __future__ import annotations

import time
import uuid
from contextlib import aclosing

from pydantic import ValidationError

from voxrtc.api.encoders import Pcm
from voxrtc.api.speech import SpeechRequest, silently, sound
from voxrtc.api.way import Way
from voxrtc.engine.client import EngineLost, StreamFailed
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.engine import Generate


async def whole(engines: Fleet, text: str, model: str, voice: str) -> tuple[int, bytes]:
    """Text -> (Hz, PCM16), made as for a listener who downloads it. Raises `ValueError` with what is wrong."""
    try:
        wanted = SpeechRequest(input=text, model=model, voice=voice)
    except ValidationError as wrong:
        raise ValueError(wrong.errors()[0]["msg"].removeprefix("Value error, ")) from None
    stream, now = f"call_{uuid.uuid4().hex}", time.monotonic()
    generate = Generate(stream=stream, text=wanted.input, accepted=now, model=wanted.model, voice=wanted.voice)
    try:
        async with aclosing(silently(sound(engines, generate, Pcm, Way(now)))) as parts:
            return Pcm.RATE, b"".join([part async for part in parts])
    except (StreamFailed, EngineLost) as failed:
        raise ValueError(str(failed)) from failed
