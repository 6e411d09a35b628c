"""The HTTP side: one FastAPI application over an engine and a media process. The page is mounted on it elsewhere."""

from __future__ import annotations

from fastapi import FastAPI

from voxrtc.api import errors, health, models, realtime, speech, stats
from voxrtc.chat.media_client import MediaClient
from voxrtc.engine.client import EngineClient


def build_app(engine: EngineClient, media: MediaClient) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop."""
    app = FastAPI(title="VoxRTC", description="Open speech language models over HTTP and WebRTC, in OpenAI's shapes.")
    errors.install(app)
    for routes in (speech, models, health):
        app.include_router(routes.router(engine))
    app.include_router(realtime.router(media))
    app.include_router(stats.router(engine, media))
    return app
