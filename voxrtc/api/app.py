"""The HTTP side: one FastAPI application over an engine and a media process. The page is mounted on it elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI

from voxrtc.api import errors, health, loading, models, realtime, socket, speech, stats
from voxrtc.chat.media_client import MediaClient
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import Keeper


def build_app(
    engines: Fleet, media: MediaClient, keeper: Keeper | None = None, suggested: Callable[[], str] = lambda: ""
) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop.

    `keeper` loads models, where that can be done; `suggested` names the one that a person is pointed to, if any.
    """
    app = FastAPI(title="VoxRTC", description="Open speech language models over HTTP and WebRTC, in OpenAI's shapes.")
    errors.install(app)
    for routes in (speech, models, health):
        app.include_router(routes.router(engines))
    if keeper:
        app.include_router(loading.router(loading.Shelf(engines, keeper, suggested)))
    app.include_router(realtime.router(media))
    app.include_router(socket.router(media))
    app.include_router(stats.router(engines, media))
    return app
