"""Takes conversations in and gives words out, to all clients of one socket; until the model is there, tells how far it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from voxrtc.messages.completion import Abandon, Complete, Completed, CompletionReply, CompletionRequest, Delta, NotCompleted
from voxrtc.messages.model import Progress, Watch

if TYPE_CHECKING:
    from voxrtc.llm.writer import Key, Writer

EARLY = 32  # requests that wait for the model
BUSY = "Too many people are being answered at once. Please try again in a moment."
FAILED = "The chat model failed; the server's log says why."

log = logging.getLogger(__name__)


class CompletionServer:
    """The loop takes requests in, at any time; a thread computes. In between, what has come in is looked at."""

    def __init__(self, send: Callable[[bytes, CompletionReply], None]) -> None:
        self._send = send
        self._progress = Progress(state="loading", stage="starting")
        self._clients: set[bytes] = set()
        self._writer: Writer | None = None
        self._inbox: list[tuple[bytes, Complete | Abandon]] = []
        self._news = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="write")

    def tell(self, progress: Progress) -> None:
        """How far the model is."""
        self._progress = progress
        for client in self._clients:
            self._send(client, progress)
        self._news.set()

    def open(self, writer: Writer) -> None:
        """From now on completions are written."""
        self._writer = writer
        self.tell(Progress(state="ready"))

    def take(self, client: bytes, request: CompletionRequest) -> None:
        """A request of a client."""
        if isinstance(request, Watch):
            self._clients.add(client)
            return self._send(client, self._progress)
        self._inbox.append((client, request))
        self._news.set()

    async def run(self) -> None:
        """Write what is asked for, until cancelled."""
        while True:
            self._read()
            if self._writer and self._writer.busy:
                await self._step(self._writer)
            else:
                await self._news.wait()
                self._news.clear()

    def _read(self) -> None:
        if self._is_nearly_there and len(self._inbox) < EARLY:
            return  # who asks now had better wait
        inbox, self._inbox = self._inbox, []
        for client, request in inbox:
            key = (client, request.completion)
            if isinstance(request, Complete):
                self._begin(key, request)
            elif self._writer:
                self._writer.abandon(key)

    @property
    def _is_nearly_there(self) -> bool:
        return self._progress.state == "loading" and self._progress.stage != "downloading"

    def _begin(self, key: Key, request: Complete) -> None:
        if self._writer is None:
            return self._fail(key, f"model_{self._progress.state}", _not_ready(self._progress))
        from voxrtc.llm.prompt import TooLong
        from voxrtc.llm.writer import Full

        try:
            self._writer.begin(key, request.messages, request.max_tokens)
        except Full:
            self._fail(key, "busy", BUSY)
        except TooLong as wrong:
            self._fail(key, "invalid_request", str(wrong))

    async def _step(self, writer: Writer) -> None:
        started = time.monotonic()
        try:
            news = await asyncio.get_running_loop().run_in_executor(self._thread, writer.step)
        except Exception:
            log.exception("a step failed")
            for key in writer.forget():
                self._fail(key, "chat_error", FAILED)
            return
        for each in news:
            client, completion = each.key
            if each.text:
                self._send(client, Delta(completion=completion, text=each.text))
            if each.last:
                self._send(client, Completed(completion=completion, cut=each.cut))
        if not writer.urgent:  # half of the time is left to the voice, which makes its first sound just now
            await asyncio.sleep(time.monotonic() - started)

    def _fail(self, key: Key, code: str, message: str) -> None:
        client, completion = key
        self._send(client, NotCompleted(completion=completion, code=code, message=message))


def _not_ready(progress: Progress) -> str:
    if progress.state == "failed":
        return f"The chat model could not be loaded. {progress.message}"
    return f"The chat model is being loaded ({progress.words}). Please try again in a moment."
