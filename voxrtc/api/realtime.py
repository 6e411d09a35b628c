"""`/v1/realtime/calls`: OpenAI's WebRTC signalling. An SDP offer goes to a media process, its answer comes back."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from voxrtc import logs
from voxrtc.api import contract
from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.hosting import Hosting
from voxrtc.api.limits import LimitedRoute, too_large
from voxrtc.api.wanted import UNSENDABLE, Wanted
from voxrtc.chat.switchboard import Switchboard
from voxrtc.messages.media import Offer, Resume

MAX_SDP = 64 * 1024  # bytes; a browser's offer has 2 to 10 thousand


SDP: contract.Schema = {"type": "string", "pattern": r"\S"}


class Call(Wanted, kw_only=True):
    """The JSON form of a call; the other forms are read into it too."""

    sdp: str


def router(media: Switchboard, hosting: Hosting) -> APIRouter:
    """The routes over the media processes."""
    host, relays = hosting.host, hosting.ours
    routes = APIRouter(prefix="/v1/realtime/calls", tags=["realtime"], route_class=LimitedRoute)

    begun = contract.sends(
        {"application/sdp": contract.TEXT},
        201,
        "The SDP answer.",
        Location="Where the call is hung up.",
        VoxRTC_Session="For a client that can come back: the token to show.",
    ) | contract.fails(_404="The session to resume is over.", _503="All places are taken, or no model is ready.")
    missing = contract.fails(_404="There is no such call.")

    @routes.post("", status_code=201, response_class=Response, responses=begun, openapi_extra=_bodies())
    async def start(request: Request, model: str = "", ticket: str = "") -> Response:
        call = await _read(request)
        if len(call.sdp.encode()) > MAX_SDP:
            raise too_large("SDP", MAX_SDP)
        if not call.sdp.strip():
            raise ApiError(400, "invalid_request", "The SDP offer is empty.", "sdp")
        session = {"model": model, **call.session} if model else call.session
        name, resumes = f"rtc_{uuid.uuid4().hex}", bool(call.resume and call.resume.token)
        logs.about(call=name)
        if resumes:
            host.resume(address_of(request))
        else:
            host.begin(name, address_of(request), ticket)
        try:
            relayed = await relays.servers()
            answer = await media.answer(Offer(call=name, sdp=call.sdp, session=session, resume=call.resume, relays=relayed))
        except BaseException:
            host.over(name)
            raise
        where = f"/v1/realtime/calls/{answer.call}"
        headers = {"Location": where} | ({"VoxRTC-Session": answer.token} if answer.token else {})
        return Response(answer.sdp, 201, headers, media_type="application/sdp")

    @routes.delete("/{call}", status_code=204, responses=missing)
    async def delete(call: str) -> Response:
        await _hang_up(media, call)
        return Response(status_code=204)

    @routes.post("/{call}/hangup", response_class=Response, responses=missing)
    async def hang_up(call: str) -> Response:
        await _hang_up(media, call)
        return Response()

    return routes


def _bodies() -> dict[str, Any]:
    """A `Call`, in its three forms."""
    parts = contract.form("sdp", sdp=SDP, session={"type": "object"}, resume=contract.shape(Resume))
    return contract.takes(application_sdp=SDP, application_json=parts, multipart_form_data=parts)


async def _hang_up(media: Switchboard, call: str) -> None:
    if not await media.hang_up(call):
        raise ApiError(404, "call_not_found", f"There is no call `{call}`; it may have ended.", "call_id")


async def _read(request: Request) -> Call:
    """The offer in any of its three forms. Raises `ApiError` 400 or 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (reader := _READERS.get(kind)):
        raise ApiError(415, "unsupported_media_type", f"Send {', '.join(_READERS)}; not `{kind}`.")
    try:
        return await reader(request)
    except RecursionError:
        raise ApiError(400, "invalid_request", f"{UNSENDABLE}.", "session") from None
    except UnicodeDecodeError:
        raise ApiError(400, "invalid_request", "The body is not UTF-8.") from None
    except msgspec.ValidationError as error:
        raise ApiError(400, "invalid_request", f"{error}.") from None
    except msgspec.DecodeError as error:
        raise ApiError(400, "invalid_json", f"The JSON cannot be read: {error}.") from None


async def _read_sdp(request: Request) -> Call:
    return Call(sdp=(await request.body()).decode())


async def _read_json(request: Request) -> Call:
    return msgspec.json.decode(await request.body(), type=Call)


async def _read_form(request: Request) -> Call:
    async with request.form(max_files=2, max_fields=8) as form:
        fields: dict[str, Any] = {name: await _text(form[name]) for name in ("sdp", "session", "resume") if name in form}
    for name in fields.keys() - {"sdp"}:
        fields[name] = msgspec.json.decode(fields[name])
    return msgspec.convert(fields, Call)


async def _text(part: UploadFile | str) -> str:
    """A field's text; browsers send a Blob as a file."""
    return part if isinstance(part, str) else (await part.read()).decode()


_READERS = {"application/sdp": _read_sdp, "application/json": _read_json, "multipart/form-data": _read_form}
