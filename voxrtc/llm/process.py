"""The chat model's process: `python -m voxrtc.llm.process --listen ipc://…`. It ends with the process that started it.

It serves `CompletionRequest`s, from before the model is loaded; settings come from the environment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import logging
import threading
from typing import TYPE_CHECKING

from voxrtc import logs
from voxrtc.cards import CardError
from voxrtc.engine.loading import Report
from voxrtc.engine.transport import Listener
from voxrtc.lifeline import die_with_parent
from voxrtc.llm.server import CompletionServer
from voxrtc.llm.source import NoModel, folder
from voxrtc.messages.completion import ChatMessage, CompletionRequest
from voxrtc.messages.model import Progress
from voxrtc.niceness import give_way, yielding
from voxrtc.settings import Settings

if TYPE_CHECKING:
    from voxrtc.llm.writer import Writer

log = logging.getLogger(__name__)


def build(settings: Settings, report: Report) -> Writer:
    """A writer, with its model loaded and warm. Raises what that can raise."""
    import torch

    from voxrtc.llm.model import SLOTS, ChatModel
    from voxrtc.llm.writer import Writer

    torch.set_num_threads(1)  # the other core is for the voice and for packets
    report.stage("reading")
    files = folder(settings.chat_models, settings.chat_local, report.downloaded)
    report.stage("reading")
    writer = Writer(ChatModel.load(files), SLOTS)
    report.stage("warming up")
    # Whoever speaks first finds the instructions computed, and everything compiled.
    writer.begin((b"", "warm-up"), [ChatMessage("system", settings.instructions), ChatMessage("user", "Hello.")])
    while writer.busy:
        writer.step()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc would keep for itself what reading took: 200 MB
    return writer


def load(settings: Settings, server: CompletionServer, loop: asyncio.AbstractEventLoop) -> None:
    """Load the model and open the server with it, or tell why that failed."""

    def tell(progress: Progress) -> None:
        loop.call_soon_threadsafe(server.tell, progress)

    report = Report(settings.chat_local, tell)
    try:
        with yielding():
            writer = build(settings, report)
        loop.call_soon_threadsafe(server.open, writer)
        log.info("%s is loaded", settings.chat_local)
    except (NoModel, CardError) as wrong:
        report.failed(str(wrong))
    except Exception as wrong:  # a model may fail in any way; the process stays to tell it
        log.exception("%s failed", settings.chat_local)
        report.failed(str(wrong) or type(wrong).__name__)


async def serve(settings: Settings, address: str) -> None:
    """Serve on a ZeroMQ address until cancelled."""
    listener = Listener(address, CompletionRequest)
    server = CompletionServer(listener.send)
    job = (settings, server, asyncio.get_running_loop())
    threading.Thread(target=load, args=job, name="loading", daemon=True).start()
    running = asyncio.ensure_future(server.run())
    try:
        await listener.serve(server.take)
    finally:
        running.cancel()


def main() -> None:
    """Read the address and serve."""
    parser = argparse.ArgumentParser(description="The chat model's process; settings come from the environment.")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    arguments = parser.parse_args()
    settings = Settings()
    logs.configure("chat", settings)
    die_with_parent()
    give_way(10)  # words are written faster than they are spoken: the voice goes first
    asyncio.run(serve(settings, arguments.listen))


if __name__ == "__main__":
    main()
