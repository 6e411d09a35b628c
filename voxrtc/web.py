"""The web process: page, HTTP API and signalling, and the children behind them. Where all the parts come together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import tempfile
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from voxrtc import cards
from voxrtc.api.app import build_app
from voxrtc.chat.media_client import MediaClient
from voxrtc.engine.client import EngineClient, EngineLost
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages import ModelInfo
from voxrtc.settings import Settings
from voxrtc.supervisor import Child, Supervisor
from voxrtc.ui.page import mount_page

log = logging.getLogger(__name__)


def main(settings: Settings) -> None:
    """Serve until interrupted. Ends the program with a sentence when it cannot begin."""
    logging.basicConfig(level=settings.log_level, format="%(asctime)s web %(levelname)s %(message)s")
    for chatty in ("httpx", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        card = cards.read_card(settings.models, settings.model)
        card.check_files()
        listener = _listen(settings)
    except (cards.CardError, OSError) as wrong:
        sys.exit(str(wrong))
    # uvicorn raises the signal that ended it once more; as an exception it runs the way out past the children.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(settings, card.info, listener))


def _listen(settings: Settings) -> socket.socket:
    """The listening socket, had before anything slow begins."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as taken:
        place = f"{settings.host}:{settings.port}"
        raise OSError(f"Cannot listen on {place} ({taken.strerror}). Try another port: make run PORT=7861") from taken
    return listener


async def _serve(settings: Settings, model: ModelInfo, listener: socket.socket) -> None:
    with tempfile.TemporaryDirectory(prefix="voxrtc-") as folder:
        engine_address, media_address = (f"ipc://{Path(folder, name)}" for name in ("engine", "media"))
        async with Supervisor(_children(settings, engine_address, media_address)):
            engine, media = EngineClient(ZmqTransport(engine_address)), MediaClient(media_address)
            app = _app(engine, media, model)
            server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
            greeting = asyncio.create_task(_greet(engine, media, listener))
            await server.serve(sockets=[listener])
            greeting.cancel()
            await engine.close()
            await media.close()


def _children(settings: Settings, engine_address: str, media_address: str) -> list[Child]:
    environment = settings.environment()
    return [
        Child("engine", ["-m", "voxrtc.engine.process", "--listen", engine_address], environment),
        Child("media", ["-m", "voxrtc.chat.media", "--engine", engine_address, "--listen", media_address], environment),
    ]


def _app(engine: EngineClient, media: MediaClient, model: ModelInfo) -> FastAPI:
    app = build_app(engine, media)
    mount_page(app, [model])
    return app


async def _greet(engine: EngineClient, media: MediaClient, listener: socket.socket) -> None:
    """Print the address once a person who opens it can speak."""
    await media.ready()
    while True:
        try:
            await engine.models()
            break
        except EngineLost:
            await asyncio.sleep(0.1)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"\n  VoxRTC is ready: http://{shown}:{port}\n", flush=True)
