"""The HTTP side: one FastAPI application over an engine and a media process. The page is mounted on it elsewhere."""

from __future__ import annotations

from fastapi import FastAPI

from voxrtc.api import errors, health, models, realtime, speech
from voxrtc.chat.media_client import MediaClient
from voxrtc.engine.client import EngineClient


def build_app(engine: EngineClient, media: MediaClient) -> FastAPI:
    """All routes. Both clients belong to the caller, who closes them; they are used on the server's event loop."""
    app = FastAPI(title="VoxRTC", description="Open speech language models over HTTP and WebRTC, in OpenAI's shapes.")
    errors.install(app)
    for routes in (speech.router(engine), realtime.router(media), models.router(engine), health.router(engine)):
        app.include_router(routes)
    return app
