"""The HTTP side: one FastAPI application over engines and media processes. The page is mounted on it elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from voxrtc import __version__
from voxrtc.api import (
    cloning,
    contract,
    errors,
    health,
    ice,
    live,
    loading,
    metrics,
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
from voxrtc.api.guard import Guard
from voxrtc.api.hosting import Hosting
from voxrtc.api.public import Bounds
from voxrtc.api.utterances import Utterances
from voxrtc.api.voices import Voices
from voxrtc.chat.switchboard import Switchboard
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import Keeper
from voxrtc.stalls import Stood

CORS: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "DELETE"],
    "allow_headers": ["Authorization", "Content-Type"],
    "expose_headers": ["Location", "VoxRTC-Session", "X-Request-Id", "Retry-After"],
}


def build_app(
    engines: Fleet,
    media: Switchboard,
    keeper: Keeper | None = None,
    suggested: Callable[[], str] = lambda: "",
    hosting: Hosting | None = None,
    crowd: Crowd | None = None,
    restarts: Callable[[], Mapping[str, int]] = dict,
    stood: Callable[[], Stood] = Stood,
) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop.

    `keeper` loads models, where that can be done; `suggested` names the one that a person is pointed to, if any. `hosting` is
    how this server is reached, and by whom. Without a `crowd` there are no virtual listeners. Close `state.feed` before the
    server is to stop, and have `state.cloning` `keep` meanwhile. `restarts` are of processes, by name,
    `stood` is of the server's event loop.
    """
    app, hosting, crowd = _empty(), hosting or Hosting(), crowd or Crowd(engines, most=0)
    _guard(app, hosting)
    app.state.origins = hosting.origins
    app.state.cloning = Cloning(engines, media, Voices(time.monotonic))
    shelf = loading.Shelf(engines, keeper, suggested, public=hosting.public is not None) if keeper else None
    app.state.feed = Feed(_shown(engines, media, crowd, shelf))
    counted = metrics.Sources(engines, media, crowd, restarts=restarts, stood=stood)
    if shelf:
        counted = replace(counted, states=engines.states, held=lambda: shelf.keeper.held)
    if public := hosting.public:
        counted = replace(counted, waiting=lambda: public.room.waiting)
    routers = [
        cloning.router(app.state.cloning),
        speech.router(engines, app.state.cloning.reference),
        transcription.router(media),
        models.router(engines),
        health.router(engines, media, hosting.drain),
        ice.router(hosting.relays, hosting.relayed),
        realtime.router(media, hosting),
        socket.router(media, hosting.host),
        tunnel.router(media, hosting.host),
        queue.router(public.room) if public else None,
        stats.router(engines, media),
        crowds.router(crowd),
        metrics.router(counted),
        loading.router(shelf) if shelf else None,
        live.router(app.state.feed),
    ]
    for router in filter(None, routers):
        app.include_router(router)
    return app


def _empty() -> FastAPI:
    """No route yet; what is wrong is told as everywhere."""
    app = FastAPI(
        title="VoxRTC",
        version=__version__,
        description=contract.ABOUT,
        docs_url=None,  # it and the next would load scripts from elsewhere
        redoc_url=None,
        responses=contract.any_failure(),
    )
    errors.install(app)
    contract.install(app)
    return app


def _guard(app: FastAPI, hosting: Hosting) -> None:
    """Who and what gets to the routes; of these, the last one stands outermost."""
    app.add_middleware(Utterances, host=hosting.host)
    if hosting.public:
        app.add_middleware(Bounds)
    app.add_middleware(Guard, access=hosting.access, frames=hosting.origins | hosting.frames)
    if hosting.origins:  # a browser asks for leave without a key
        app.add_middleware(CORSMiddleware, allow_origins=list(hosting.origins), **CORS)


def _shown(engines: Fleet, media: Switchboard, crowd: Crowd, shelf: loading.Shelf | None) -> dict[str, Source]:
    """What who looks on live is told."""
    sources = {"stats": Source(partial(stats.live_stats, engines, media)), "crowd": Source(crowds.looked_at(crowd))}
    return sources | ({"models": Source(shelf.shown, every=2)} if shelf else {})
