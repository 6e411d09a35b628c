"""Voices of people's own, in OpenAI's form: `/v1/audio/voices`. Where they are used is told of them, and of their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Literal, TypedDict

from fastapi import APIRouter, Request
from starlette.datastructures import FormData

from voxrtc.api import contract
from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.forms import RecordingRoute, file_in, read_form, words_in
from voxrtc.api.guests import household
from voxrtc.api.recording import Recording, Unfit, read_sound, unfit
from voxrtc.api.voices import Voice, Voices
from voxrtc.chat.media_client import CallRefused
from voxrtc.chat.switchboard import Switchboard
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.engine import Reference

PATH = "/v1/audio/voices"
EVERY = 30.0  # seconds between looks at who uses what
MAX_NAME, MAX_TEXT = 100, 1_000  # characters


class Warned(TypedDict):
    code: str
    message: str


class Measured(TypedDict):
    """Of the recording. `text` is what is said in it, `expires_in` are seconds without use until the voice goes."""

    text: str
    seconds: float
    sample_rate: int
    level_db: float
    noise_db: float
    clipped: float
    warnings: list[Warned]
    expires_in: int


class OwnVoice(TypedDict):
    id: str
    object: Literal["audio.voice"]
    created_at: int
    name: str
    voxrtc: Measured


class Deleted(TypedDict):
    id: str
    object: Literal["audio.voice"]
    deleted: Literal[True]


FORM = contract.form(
    "audio_sample",
    "consent",
    audio_sample=contract.BINARY | {"description": "A sound file of 1 to 30 s."},
    consent={"const": "true", "description": "It is your voice, or its owner agreed."},
    name={"type": "string", "maxLength": MAX_NAME},
    ref_text={"type": "string", "maxLength": MAX_TEXT, "description": "What is said in it."},
)


class Cloning:
    """The voices, and who has to know of them: media processes, for their sessions, and engines, which make them once."""

    def __init__(self, engines: Fleet, media: Switchboard, voices: Voices) -> None:
        self._engines, self._media, self.voices = engines, media, voices
        self._telling: set[asyncio.Task[None]] = set()
        media.found = self._tell_all

    async def add(self, owner: str, name: str, recording: Recording) -> Voice:
        """Raises `ApiError` 503."""
        voice, gone = self.voices.add(owner, name, recording, time.time())
        await self._tell(voice)
        for other in gone:
            await self._forget(other)
        return voice

    def find(self, id: str) -> Voice:
        """A voice that somebody uses now. Raises `ApiError` 404."""
        if voice := self.voices.find(id):
            return voice
        raise ApiError(404, "voice_gone", "This voice is not here any more. Please give its recording again.", "voice")

    def reference(self, id: str) -> Reference:
        """Its recording. Raises as `find`."""
        return self.find(id).recording.reference

    async def delete(self, id: str) -> None:
        """Nothing of it is left when this returns, but in streams that are just speaking. Raises `ApiError` 404."""
        voice = self.find(id)
        self.voices.remove(id)
        await self._forget(voice)

    async def keep(self) -> None:
        """Until cancelled: a voice stays while a call goes on with it, and goes when nobody used it for long."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Once."""
        if self.voices.all:
            with contextlib.suppress(CallRefused):
                self.voices.used(await self._media.voices_used())
            for voice in self.voices.idle():
                await self._forget(voice)

    async def _tell(self, voice: Voice) -> None:
        if voice not in self.voices.all:
            return  # deleted meanwhile
        with contextlib.suppress(CallRefused):  # it is told when it is there
            await self._media.keep_voice(voice.id, voice.recording.reference)

    async def _forget(self, voice: Voice) -> None:
        with contextlib.suppress(CallRefused):  # it has forgotten everything
            await self._media.drop_voice(voice.id)
        self._engines.forget_voice(voice.recording.reference.digest)

    def _tell_all(self) -> None:
        """A media process has been started anew, and knows nothing."""
        for voice in self.voices.all:
            task = asyncio.get_running_loop().create_task(self._tell(voice))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)


def router(cloning: Cloning) -> APIRouter:
    """The routes over the voices. There is no list of them: who does not know an id has no voice."""
    routes = APIRouter(prefix=PATH, tags=["voices"], route_class=RecordingRoute)

    made = contract.answers(OwnVoice, 201) | contract.fails(_503="All places for voices are in use.")
    missing = contract.fails(_404="There is no such voice, or it is gone.")

    @routes.post("", status_code=201, responses=made, openapi_extra=contract.takes(multipart_form_data=FORM))
    async def create(request: Request) -> dict[str, Any]:
        async with read_form(request) as form:
            _check_consent(form)
            sound, name = await file_in(form, "audio_sample"), words_in(form, "name", MAX_NAME)
            said = words_in(form, "ref_text", MAX_TEXT)
        try:
            recording = await asyncio.to_thread(read_sound, sound, said)
        except Unfit as wrong:
            raise unfit(wrong, "audio_sample") from None
        return shown(await cloning.add(household(address_of(request)), name or "My voice", recording))

    @routes.get("/{id}", responses=contract.answers(OwnVoice) | missing)
    async def get(id: str) -> dict[str, Any]:
        return shown(cloning.find(id))

    @routes.delete("/{id}", responses=contract.answers(Deleted) | missing)
    async def delete(id: str) -> dict[str, Any]:
        await cloning.delete(id)
        return {"id": id, "object": "audio.voice", "deleted": True}

    def shown(voice: Voice) -> dict[str, Any]:
        """OpenAI's fields; ours stand under `voxrtc`."""
        measured, left = voice.recording.measured, cloning.voices.left(voice.id)
        ours = {
            "text": voice.recording.reference.text,
            "seconds": round(measured.seconds, 2),
            "sample_rate": measured.sample_rate,
            "level_db": round(measured.level, 1),
            "noise_db": round(measured.noise, 1),
            "clipped": round(measured.clipped, 5),
            "warnings": [{"code": code, "message": words} for code, words in measured.warnings],
            "expires_in": round(left),
        }
        return {"id": voice.id, "object": "audio.voice", "created_at": int(voice.created), "name": voice.name, "voxrtc": ours}

    return routes


def _check_consent(form: FormData) -> None:
    if form.get("consent") != "true":
        message = "`consent`: Send `true` if it is your voice, or its owner agreed that you use it. Others are not taken."
        raise ApiError(400, "consent_required", message, "consent")
