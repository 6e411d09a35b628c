"""`POST /v1/audio/transcriptions`: OpenAI's form; a recording's words, by the speech to text that conversations have."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from voxrtc.api import contract
from voxrtc.api.errors import ApiError
from voxrtc.api.forms import RecordingRoute, file_in, read_form, words_in
from voxrtc.api.recording import Unfit, read_speech, unfit
from voxrtc.chat.switchboard import Switchboard

PATH = "/v1/audio/transcriptions"
FORMATS = ("json", "text")


class Written(TypedDict):
    text: str


WRITTEN = contract.sends({"application/json": contract.shape(Written), "text/plain": contract.TEXT})
FORM = contract.form(
    "file",
    file=contract.BINARY | {"description": "A sound file."},
    response_format={"enum": list(FORMATS), "default": "json"},
    model=contract.TEXT,
    language=contract.TEXT,
)


def router(media: Switchboard) -> APIRouter:
    """The route over the media processes, whose speech to text it is. `model` and `language` have no effect."""
    routes = APIRouter(tags=["speech"], route_class=RecordingRoute)

    @routes.post(PATH, responses=WRITTEN, openapi_extra=contract.takes(multipart_form_data=FORM))
    async def transcribe(request: Request) -> Response:
        async with read_form(request) as form:
            file, kind = await file_in(form, "file"), words_in(form, "response_format", 20) or "json"
        if kind not in FORMATS:
            message = f"`response_format`: It may be {' or '.join(FORMATS)}."
            raise ApiError(400, "invalid_request", message, "response_format")
        try:
            pcm = await asyncio.to_thread(read_speech, file)
        except Unfit as wrong:
            raise unfit(wrong, "file") from None
        text = await media.transcribe(pcm)
        return PlainTextResponse(text) if kind == "text" else JSONResponse({"text": text})

    return routes
