"""An engine in a process of its own, for one model. `transport.py` is the way to it.

`python -m voxrtc.engine.process --listen ipc://…`; settings come from the environment. The socket is there at once and says
how far the model is (`Progress`). The process ends with the one that started it: its standard input is a pipe from there,
and end of file means that nobody is left to speak for. Nothing heavy is imported before the model's files are there.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from voxrtc import hub, logs
from voxrtc.cards import CardError, read_card
from voxrtc.engine.loading import Report
from voxrtc.engine.server import EngineServer
from voxrtc.lifeline import die_with_parent
from voxrtc.messages.model import ModelInfo
from voxrtc.niceness import give_way, yielding
from voxrtc.settings import Settings

if TYPE_CHECKING:
    from voxrtc.engine.loop import Engine
    from voxrtc.speechlm.base import Placement, SpeechLM

log = logging.getLogger(__name__)


Read = Callable[[Settings, "Placement"], tuple[ModelInfo, "SpeechLM"]]


def _files(settings: Settings, at: Placement) -> tuple[ModelInfo, SpeechLM]:
    from voxrtc.speechlm import registry

    return registry.load(settings.models, settings.model, at)


def build(settings: Settings, read: Read = _files) -> Engine:
    """The engine of the settings' model, which is read now. Raises what that can raise."""
    import torch

    from voxrtc.engine.device import placed
    from voxrtc.engine.loop import Engine
    from voxrtc.engine.memory import pages_for
    from voxrtc.engine.process_stage import ProcessStage, start
    from voxrtc.engine.scheduler import POLICIES
    from voxrtc.engine.snapshot import ChunkSizes
    from voxrtc.engine.worker import PAGE_SIZE, Worker

    torch.set_num_threads(1)  # small matrices: a second thread costs more in hand-over than it computes
    at = placed(settings)
    sound = ProcessStage(partial(start, settings.environment())) if settings.disaggregated else None
    with contextlib.ExitStack() as undo:
        if sound:
            undo.callback(sound.stop)
        info, model = read(settings, at)
        if sound:
            sound.wait()  # it was loaded meanwhile, and what it has taken the cache cannot have
        pages = pages_for(model, settings.max_streams, PAGE_SIZE, settings.kv_memory)
        log.info("%s is read, for %s, with %d pages of cache", info.name, at.device, pages)
        engine = Engine(
            Worker(model, settings.max_streams, pages, sound=sound),
            info,
            policy=POLICIES[settings.policy],
            max_waiting=settings.max_waiting,
            chunks=ChunkSizes(settings.first_chunk, settings.chunk),
            on_crash=lambda: os._exit(1),
        )
        undo.pop_all()
    return engine


def load(settings: Settings, server: EngineServer, beside_others: bool, read: Read | None = None) -> None:
    """Fetch, read and warm up the model, and open the server with it; or tell why that failed. With another way to `read` it
    nothing is fetched."""
    report = Report(settings.model, server.tell)
    try:
        card = read_card(settings.models, settings.model)
        if read is None and card.missing():
            hub.fetch(card, report.downloaded)
        with yielding() if beside_others else contextlib.nullcontext():
            report.stage("reading")
            engine = build(settings, read or _files)
            server.memory = lambda: engine.worker.memory
            report.stage("warming up")
            engine.start()
        server.open(engine, engine.info)
        log.info("%s is loaded", settings.model)
    except (CardError, hub.HubError) as wrong:
        report.failed(str(wrong))
    except Exception as wrong:  # a model may fail in any way; the process stays to tell it
        log.exception("%s failed", settings.model)
        report.failed(str(wrong) or type(wrong).__name__)


def main() -> None:
    """Serve the model of the settings, from before it is loaded."""
    parser = argparse.ArgumentParser(description="A speech engine as a process of its own; settings come from the environment.")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    parser.add_argument("--beside-others", action="store_true", help="leave them the processor until the model is ready")
    arguments = parser.parse_args()
    settings = Settings()
    logs.configure("engine", settings, quiet=("httpx", "httpx2"))  # each a line for each request to the hub
    die_with_parent()
    give_way(5)  # a step can wait a moment, a packet of the media process cannot
    server = EngineServer(settings.model, arguments.listen)
    job = (settings, server, arguments.beside_others)
    threading.Thread(target=load, args=job, name="loading", daemon=True).start()
    server.serve()


if __name__ == "__main__":
    main()
