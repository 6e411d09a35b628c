"""uvicorn as this program wants it: what it takes from a client, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from voxrtc.api.drain import Drain
from voxrtc.api.feed import Feed
from voxrtc.api.limits import MAX_HEADERS
from voxrtc.chat.socket import MAX_EVENT

DRAIN = 20.0  # seconds that who is being spoken to has; with all that follows it is less than the 30 that Kubernetes gives
MOMENT = 0.5  # seconds, at the very end, for requests that are no utterances
MARGIN = 2.0  # seconds for the word that all have ended

log = logging.getLogger(__name__)


def configured(app: FastAPI, proxies: str) -> uvicorn.Config:
    """With bounds. Sound does not get smaller by deflating, but costs time."""
    return uvicorn.Config(
        app,
        log_config=None,  # its loggers are ours
        log_level="warning",
        timeout_graceful_shutdown=2,
        ws_per_message_deflate=False,
        forwarded_allow_ips=proxies,
        http="h11",  # it bounds headers, which others do not
        h11_max_incomplete_event_size=2 * MAX_HEADERS,
        ws_max_size=2 * MAX_EVENT,  # beyond one, the answer says so
        server_header=False,
    )


class Server(uvicorn.Server):
    """SIGTERM drains it: it lets nobody new in, and ends once `let_end` does, which is told how many seconds it has. SIGINT,
    or any signal after that, ends it at once. Make it on its event loop."""

    def __init__(self, config: uvicorn.Config, feed: Feed, drain: Drain, let_end: Callable[[float], Awaitable[None]]) -> None:
        super().__init__(config)
        self._feed, self._drain, self._let_end = feed, drain, let_end
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and not self._drain.begun and not self.should_exit:
            self._drain.begin()
            self._loop.call_soon_threadsafe(self._begin)
            return
        self.force_exit = self._drain.begun
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Who looks at a feed, ours or Gradio's, looks for ever, so lines that are not over in a moment are closed."""
        if self._draining:
            self._draining.cancel()
        self._feed.close()
        hanging_up = asyncio.create_task(self._hang_up())
        await super().shutdown(sockets)
        hanging_up.cancel()

    async def _hang_up(self) -> None:
        """To the application it is as if clients had gone; were it cancelled, each would be an error in the log."""
        await asyncio.sleep(MOMENT)
        for connection in list(self.server_state.connections):
            connection.transport.close()

    def _begin(self) -> None:
        self._draining = self._loop.create_task(self._end())

    async def _end(self) -> None:
        log.info("asked to end: nobody new is let in, and what is being said has %.0f s", DRAIN)
        try:
            async with asyncio.timeout(DRAIN + MARGIN):
                await self._let_end(DRAIN)
        except TimeoutError:
            log.warning("not all that was being said has ended")
        finally:
            self.should_exit = True
