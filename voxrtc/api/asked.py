"""What a request for speech asks of a model that hears: a text or a recording becomes a conversation that it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from pydantic import BaseModel, Field

from voxrtc.api.errors import ApiError
from voxrtc.api.recording import read_recording
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.conversation import ConversationTurn, Hear, Heard, Words

Part = TypeVar("Part")


class InputAudio(BaseModel):
    """As in a message of OpenAI's chat completions. `format` is taken and not needed: any sound file is read."""

    data: str
    format: str = Field("", max_length=100)


async def read_input(engines: Fleet, model: str, audio: InputAudio | None, stream: str) -> Hear | None:
    """What is said in it, to be heard for a stream; None where nothing is, or nobody is there to hear it, which the stream
    will tell. Raises `ApiError` 400: as for any recording, and where the model cannot hear."""
    if audio is None or not any(info.name == model or not model for info in engines.known):
        return None
    if not engines.hears(model):
        message = "`input_audio`: This model reads text out and cannot hear. Please choose a speech-to-speech model."
        raise ApiError(400, "cannot_hear", message, "input_audio")
    recording = await asyncio.to_thread(read_recording, audio.data, "", "input_audio")
    return Hear(hearing=f"{stream}/input", pcm=recording.pcm, sample_rate=recording.sample_rate, first=True, final=True)


def conversation(instructions: str, sound: Hear | None, text: str) -> tuple[ConversationTurn, ...]:
    """Instructions, then what was said, then what was typed."""
    turns: list[ConversationTurn] = []
    if instructions.strip():
        turns.append(Words(role="system", text=instructions))
    if sound:
        turns.append(Heard(hearing=sound.hearing))
    if text.strip():
        turns.append(Words(role="user", text=text))
    return tuple(turns)


async def heard(engines: Fleet, model: str, sound: Hear, parts: AsyncGenerator[Part]) -> AsyncGenerator[Part]:
    """The answer's parts, which need this sound; afterwards nobody does."""
    engines.hear(model, sound)
    try:
        async with aclosing(parts):
            async for part in parts:
                yield part
    finally:
        engines.unhear(model, sound.hearing)
