"""The HTTP side: one FastAPI application over an engine and a media process. The page is mounted on it elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import FastAPI

from voxrtc.api import crowd as crowds
from voxrtc.api import errors, health, ice, live, loading, models, realtime, socket, speech, stats
from voxrtc.api.feed import Feed, Source
from voxrtc.chat.media_client import MediaClient
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import Keeper
from voxrtc.rtc.turn import Relays


def build_app(
    engines: Fleet,
    media: MediaClient,
    keeper: Keeper | None = None,
    suggested: Callable[[], str] = lambda: "",
    relays: Relays | None = None,
    relayed: bool = False,
    crowd: Crowd | None = None,
) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop.

    `keeper` loads models, where that can be done; `suggested` names the one that a person is pointed to, if any. `relays` are
    for browsers, and, where it is `relayed`, for this server as well. Without a `crowd` there are no virtual listeners.
    """
    app = FastAPI(title="VoxRTC", description="Open speech language models over HTTP and WebRTC, in OpenAI's shapes.")
    errors.install(app)
    for routes in (speech, models, health):
        app.include_router(routes.router(engines))
    relays = relays or Relays(None)
    app.include_router(ice.router(relays, relayed))
    app.include_router(realtime.router(media, relays if relayed else Relays(None)))
    app.include_router(socket.router(media))
    app.include_router(stats.router(engines, media))
    crowd = crowd or Crowd(engines, most=0)
    app.include_router(crowds.router(crowd))
    sources = {"stats": Source(partial(stats.live_stats, engines, media)), "crowd": Source(crowds.looked_at(crowd))}
    if keeper:
        shelf = loading.Shelf(engines, keeper, suggested)
        app.include_router(loading.router(shelf))
        sources["models"] = Source(shelf.shown, every=2)
    app.include_router(live.router(Feed(sources)))
    return app
