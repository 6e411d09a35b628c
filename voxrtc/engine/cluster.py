"""Several engines of a model behind one address: `python -m voxrtc.engine.cluster --listen ipc://…` stands where an engine's
process does (`engine.process`), so clients know no difference. Settings come from the environment; `workers` says who runs the
replicas. No torch here."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import tempfile
import threading
from pathlib import Path

from voxrtc import logs, machine
from voxrtc.cards import read_card
from voxrtc.engine.link import Host
from voxrtc.engine.local_host import LocalHost
from voxrtc.engine.replicas import Replicas
from voxrtc.engine.server import EngineServer
from voxrtc.lifeline import when_parent_ends
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings

log = logging.getLogger(__name__)


async def run(settings: Settings, server: EngineServer) -> None:
    """Have the replicas, until the process is asked to end."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    when_parent_ends(lambda: loop.call_soon_threadsafe(over.set))
    # Beside its own socket: if this process is killed, whoever made that folder removes it
    with tempfile.TemporaryDirectory(dir=Path(server.address.removeprefix("ipc://")).parent) as folder:
        try:
            host = _host(settings, Path(folder), server)
        except Exception as wrong:  # a cluster may fail in any way to be there; the process stays to tell it
            log.exception("%s has no place to run", settings.model)
            server.tell(Progress(state="failed", message=str(wrong) or type(wrong).__name__))
            await over.wait()
            return
        loop.add_signal_handler(signal.SIGTERM, over.set)  # only now, since Ray takes it for itself
        replicas = Replicas(host, settings.replicas, server.tell, server.open)
        server.memory = lambda: replicas.memory
        await over.wait()
        await replicas.close()


def _host(settings: Settings, folder: Path, server: EngineServer) -> Host:
    """Raises `CardError`, `ImportError` where Ray is not installed, and what Ray does where its cluster cannot be reached."""
    if settings.workers == "local":
        return LocalHost(settings, folder, machine.gpus())
    try:
        from voxrtc.engine.ray_host import RayHost
    except ImportError:
        raise ImportError("Ray is not installed: pip install -r requirements-ray.txt, or `make run WORKERS=ray`.") from None
    server.tell(Progress(state="loading", stage="starting Ray"))
    return RayHost(settings, read_card(settings.models, settings.model).needs)


def main() -> None:
    """Serve the model of the settings."""
    parser = argparse.ArgumentParser(description="Several speech engines as one; settings come from the environment.")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    arguments, _ = parser.parse_known_args()
    settings = Settings()
    logs.configure("cluster", settings)
    server = EngineServer(settings.model, arguments.listen)
    threading.Thread(target=server.serve, name="serving", daemon=True).start()
    asyncio.run(run(settings, server))


if __name__ == "__main__":
    main()
