"""The media process: `python -m voxrtc.chat.media --engine lark=ipc://… --hearing ipc://… --chat ipc://… --listen ipc://…`.

Settings come from the environment. One asyncio loop of peers and their conversations. It serves `MediaRequest`s; it ends
with the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from functools import partial
from typing import Protocol

from voxrtc import logs, traces
from voxrtc.asr.client import HearingClient
from voxrtc.chat.embedded import EmbeddedReplier
from voxrtc.chat.endpoint import ChatEndpoint
from voxrtc.chat.server import MediaServer
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.transport import Listener, ZmqTransport
from voxrtc.lifeline import die_with_parent
from voxrtc.llm.client import CompletionClient
from voxrtc.messages.media import MediaReply, MediaRequest
from voxrtc.rtc import ice
from voxrtc.rtc.garbage import settle
from voxrtc.rtc.peer import warm_up
from voxrtc.settings import Settings
from voxrtc.stalls import Stalls

log = logging.getLogger(__name__)


class Handler(Protocol):
    """Who answers requests; None: nothing is to be said."""

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply | None: ...


async def serve(server: Handler, address: str) -> None:
    """Answer requests on a ZeroMQ address until cancelled. Requests do not wait for each other."""
    listener = Listener(address, MediaRequest)
    tasks: set[asyncio.Task[None]] = set()

    async def reply(client: bytes, request: MediaRequest) -> None:
        if answer := await server.handle(request, partial(listener.send, client)):
            listener.send(client, answer)

    def take(client: bytes, request: MediaRequest) -> None:
        task = asyncio.create_task(reply(client, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    await listener.serve(take)


async def run(
    engine_addresses: dict[str, str],
    hearing_address: str,
    chat_address: str,
    address: str,
    settings: Settings,
    name: str = "media",
) -> None:
    """The process's life: warm up, serve, and hang up at SIGTERM or SIGINT. Engines by model, the default one first."""
    ice.prepare(settings.ice_loopback)
    engines = Fleet({model: ZmqTransport(where) for model, where in engine_addresses.items()})
    hearing = HearingClient(hearing_address, settings.transcription)
    chat: ChatEndpoint | EmbeddedReplier | None = None
    if settings.chat_url:
        chat = ChatEndpoint(settings.chat_url, settings.chat_model, settings.chat_key.get_secret_value())
    elif chat_address:
        chat = EmbeddedReplier(CompletionClient(chat_address))
    stalls = Stalls()
    server = MediaServer(engines, hearing, lambda: chat if chat and chat.there else None, settings, lambda: stalls.stood, name)
    await warm_up(ice.configuration(""))
    settle()
    watching = asyncio.ensure_future(stalls.watch())
    serving = asyncio.ensure_future(serve(server, address))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    log.info("ready on %s", address)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    watching.cancel()
    await server.close()
    await engines.close()
    await hearing.close()
    if chat:
        await chat.close()


def main() -> None:
    """Read the addresses and run."""
    parser = argparse.ArgumentParser(description="The media process; settings come from the environment.")
    parser.add_argument("--engine", required=True, action="append", metavar="MODEL=ADDRESS", help="the default model first")
    parser.add_argument("--hearing", required=True, help="ZeroMQ address of speech to text")
    parser.add_argument("--chat", default="", help="ZeroMQ address of the chat model, where one comes along")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    parser.add_argument("--name", default="media", help="by which logs know it, and clients that come back")
    arguments = parser.parse_args()
    settings = Settings()
    logs.configure(arguments.name, settings, quiet=("aioice", "aiortc"))  # each a dozen lines a connection
    traces.configure()
    die_with_parent()
    engines = dict(engine.split("=", 1) for engine in arguments.engine)
    asyncio.run(run(engines, arguments.hearing, arguments.chat, arguments.listen, settings, arguments.name))
    traces.close()


if __name__ == "__main__":
    main()
