"""The HTTP side: one FastAPI application over an engine and a media process. The page is mounted on it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fastapi import FastAPI

from voxrtc.api import crowd as crowds
from voxrtc.api import errors, health, ice, live, loading, models, queue, realtime, socket, speech, stats
from voxrtc.api.feed import Feed, Source
from voxrtc.api.host import Anyone, PublicHost
from voxrtc.api.public import Bounds
from voxrtc.cards import Card
from voxrtc.chat.media_client import MediaClient
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.rtc.turn import Relays


def build_app(
    engines: Fleet,
    media: MediaClient,
    cards: Sequence[Card] = (),
    suggested: Callable[[], str] = lambda: "",
    relays: Relays | None = None,
    relayed: bool = False,
    crowd: Crowd | None = None,
    host: PublicHost | None = None,
) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop.

    `cards` are what `engines` can load; `suggested` names the one that a person is pointed to, if any. `relays` are for
    browsers, and, where it is `relayed`, for this server as well. Without a `crowd` there are no virtual listeners. `host` is
    there if this server is open to the public.
    """
    app = FastAPI(title="VoxRTC", description="Open speech language models over HTTP and WebRTC, in OpenAI's shapes.")
    errors.install(app)
    for routes in (speech, models, health):
        app.include_router(routes.router(engines))
    shelf = loading.Shelf(engines, cards, suggested)
    app.include_router(loading.router(engines, shelf))
    relays = relays or Relays(None)
    app.include_router(ice.router(relays, relayed))
    app.include_router(realtime.router(media, relays if relayed else Relays(None), host or Anyone()))
    app.include_router(socket.router(media, host or Anyone()))
    if host:
        app.include_router(queue.router(host.room))
        app.add_middleware(Bounds, host=host)
    app.include_router(stats.router(engines, media))
    crowd = crowd or Crowd(engines, most=0)
    app.include_router(crowds.router(crowd))
    sources = {
        "stats": Source(partial(stats.live_stats, engines, media)),
        "models": Source(shelf.shown, every=2),
        "crowd": Source(crowds.looked_at(crowd)),
    }
    app.include_router(live.router(Feed(sources)))
    return app
