"""`/login` and `/logout`, where there are keys or a login: a form, and the cookie that comes of it. Gradio's own clients know
the way, too (`Client(url, auth=(user, password))`)."""

from __future__ import annotations

import logging
import time
from typing import Literal

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from voxrtc.api.access import COOKIE, LASTS, Access
from voxrtc.api.address import address_of
from voxrtc.api.errors import ApiError
from voxrtc.api.guests import Guests
from voxrtc.api.limits import LimitedRoute

AT_A_TIME, A_MINUTE = 2, 10  # tries of one address
WRONG = "<!-- wrong -->"  # where the form says that the last try was

log = logging.getLogger(__name__)


def router(access: Access, form: str, wrong: str, embedded: bool = False) -> APIRouter:
    """The routes. `form` is the markup, in which `wrong` comes in the place of `WRONG`; `embedded`: in a frame of another
    site, whose browser keeps the cookie for that site alone."""
    routes = APIRouter(route_class=LimitedRoute, include_in_schema=False)
    guests = Guests(AT_A_TIME, A_MINUTE, time.monotonic)

    @routes.get("/login")
    async def ask() -> Response:
        return HTMLResponse(form)

    @routes.post("/login")
    async def take(request: Request) -> Response:
        person, address = "text/html" in request.headers.get("accept", ""), address_of(request)
        guests.enter(address)
        try:
            async with request.form(max_files=0, max_fields=4) as fields:
                user, password = str(fields.get("username", "")), str(fields.get("password", ""))
        finally:
            guests.leave(address)
        if not access.welcomes(user, password):
            log.warning("a login from %s failed", address)
            if person:
                return HTMLResponse(form.replace(WRONG, wrong), 401)
            raise ApiError(401, "unauthorized", "The name or the password is wrong.")
        response = RedirectResponse("./", 303) if person else Response()
        return _remember(response, access.ticket(), request.url.scheme == "https", embedded)

    @routes.get("/logout")
    async def leave(request: Request) -> Response:
        access.end(request.cookies.get(COOKIE, ""))
        return _remember(RedirectResponse("login", 303), "", request.url.scheme == "https", embedded, 0)

    return routes


def _remember(response: Response, ticket: str, encrypted: bool, embedded: bool, seconds: float = LASTS) -> Response:
    """For so long; none at all: no longer. A browser knows a cookie again by what it was told of it before."""
    framed = embedded and encrypted  # browsers keep a third party's cookie only so
    site: Literal["none", "lax"] = "none" if framed else "lax"
    response.set_cookie(COOKIE, ticket, round(seconds), httponly=True, secure=encrypted, samesite=site)
    if framed:  # Python knows the attribute since 3.14
        response.headers["Set-Cookie"] += "; Partitioned"
    return response
