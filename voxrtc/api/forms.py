"""Forms that bring a sound file (multipart/form-data)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from voxrtc.api.errors import ApiError
from voxrtc.api.limits import MAX_BODY, MAX_RECORDING, LimitedRoute


class RecordingRoute(LimitedRoute):
    """A body may bring a recording."""

    limit = MAX_BODY + MAX_RECORDING


class _InMemory(MultiPartParser):
    """No recording is ever written to a disk."""

    spool_max_size = MAX_BODY + MAX_RECORDING


@asynccontextmanager
async def read_form(request: Request) -> AsyncIterator[FormData]:
    """With one file at most. Raises `ApiError` 400, 413 or 415. Forms of other sites do not come so far (`guard`)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise ApiError(415, "unsupported_media_type", f"Send multipart/form-data; not `{kind}`.")
    try:
        form = await _InMemory(request.headers, request.stream(), max_files=1, max_fields=8).parse()
    except MultiPartException as wrong:
        raise ApiError(400, "invalid_request", f"The form cannot be read: {wrong.message}") from None
    try:
        yield form
    finally:
        await form.close()


async def file_in(form: FormData, field: str) -> bytes:
    """Raises `ApiError` 400."""
    file = form.get(field)
    if isinstance(file, UploadFile):
        return await file.read()
    raise ApiError(400, "invalid_request", f"`{field}`: Please send a sound file.", field)


def words_in(form: FormData, field: str, most: int) -> str:
    """At most so many characters; "" where there are none. Raises `ApiError` 400."""
    words = form.get(field, "")
    if isinstance(words, str) and len(words) <= most:
        return words.strip()
    raise ApiError(400, "invalid_request", f"`{field}`: It may have {most} characters.", field)
