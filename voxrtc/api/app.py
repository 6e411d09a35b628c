"""The HTTP side: one FastAPI application over an engine and a media process. The page is mounted on it elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from fastapi import FastAPI

from voxrtc.api import (
    cloning,
    errors,
    health,
    ice,
    live,
    loading,
    models,
    queue,
    realtime,
    socket,
    speech,
    stats,
    transcription,
    tunnel,
)
from voxrtc.api import crowd as crowds
from voxrtc.api.cloning import Cloning
from voxrtc.api.feed import Feed, Source
from voxrtc.api.hosting import Hosting
from voxrtc.api.public import Bounds
from voxrtc.api.voices import Voices
from voxrtc.chat.media_client import MediaClient
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import Keeper


def build_app(
    engines: Fleet,
    media: MediaClient,
    keeper: Keeper | None = None,
    suggested: Callable[[], str] = lambda: "",
    hosting: Hosting | None = None,
    crowd: Crowd | None = None,
) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop.

    `keeper` loads models, where that can be done; `suggested` names the one that a person is pointed to, if any. `hosting` is
    how this server is reached, and by whom. Without a `crowd` there are no virtual listeners. Close `state.feed` before the
    server is to stop, and have `state.cloning` `keep` meanwhile.
    """
    app = FastAPI(title="VoxRTC", description="Open speech language models over HTTP and WebRTC, in OpenAI's shapes.")
    errors.install(app)
    app.state.cloning = Cloning(engines, media, Voices(time.monotonic))
    app.include_router(cloning.router(app.state.cloning))
    app.include_router(speech.router(engines, app.state.cloning.reference))
    app.include_router(transcription.router(media))
    for routes in (models, health):
        app.include_router(routes.router(engines))
    hosting = hosting or Hosting()
    app.include_router(ice.router(hosting.relays, hosting.relayed))
    app.include_router(realtime.router(media, hosting))
    app.include_router(socket.router(media, hosting.host))
    app.include_router(tunnel.router(media, hosting.host))
    if hosting.public:
        app.include_router(queue.router(hosting.public.room))
        app.add_middleware(Bounds, host=hosting.public)
    app.include_router(stats.router(engines, media))
    crowd = crowd or Crowd(engines, most=0)
    app.include_router(crowds.router(crowd))
    sources = {"stats": Source(partial(stats.live_stats, engines, media)), "crowd": Source(crowds.looked_at(crowd))}
    if keeper:
        shelf = loading.Shelf(engines, keeper, suggested, public=hosting.public is not None)
        app.include_router(loading.router(shelf))
        sources["models"] = Source(shelf.shown, every=2)
    app.state.feed = Feed(sources)
    app.include_router(live.router(app.state.feed))
    return app
