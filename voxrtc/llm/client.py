"""What a conversation holds of the chat model's process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable

from voxrtc.engine.transport import Connection
from voxrtc.messages.completion import Abandon, ChatMessage, Complete, Completed, CompletionReply, Delta, NotCompleted
from voxrtc.messages.model import Progress, Watch

LOST = "The chat model has stopped and is being restarted. Please say it again in a few seconds."
AWAY = "The chat model does not start; the server's log says why."
START_WITHIN = 15.0  # seconds; who asks meanwhile waits


class CompletionFailed(Exception):
    """There is no answer, or it broke off. `code` as in `completion.NotCompleted`; the text is for the person to read."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CompletionCut(Exception):
    """The answer reached its `max_tokens`; what came of it is all there is."""


class CompletionClient:
    """Conversations in, words out. Make and use it on one running event loop; it finds a restarted process by itself."""

    def __init__(self, address: str, on_progress: Callable[[Progress], None] = lambda _: None) -> None:
        """`on_progress` is told how far the model is, whenever that changes."""
        self.progress = Progress(state="loading", stage="starting")
        self._on_progress = on_progress
        self._open: dict[str, asyncio.Queue[CompletionReply]] = {}
        self._there = asyncio.Event()
        self._connection = Connection(address, CompletionReply, self._take, self._changed)

    async def complete(self, messages: list[ChatMessage], max_tokens: int | None = None) -> AsyncGenerator[str, None]:
        """What the assistant says next, bit by bit. Leaving early stops it. Raises `CompletionFailed`, and `CompletionCut`
        at the end."""
        completion, replies = uuid.uuid4().hex, asyncio.Queue[CompletionReply]()
        try:
            await asyncio.wait_for(self._there.wait(), START_WITHIN)
        except TimeoutError:
            raise CompletionFailed("chat_lost", AWAY) from None
        if not self._connection.send(Complete(completion=completion, messages=messages, max_tokens=max_tokens)):
            raise CompletionFailed("chat_lost", LOST)
        self._open[completion] = replies
        try:
            while True:
                match await replies.get():
                    case Delta(text=text):
                        yield text
                    case Completed(cut=cut):
                        if cut:
                            raise CompletionCut
                        return
                    case NotCompleted(code=code, message=message):
                        raise CompletionFailed(code, message)
        finally:
            if self._open.pop(completion, None):
                self._connection.send(Abandon(completion=completion))  # of no effect where it is over

    async def close(self) -> None:
        await self._connection.close()

    def _take(self, reply: CompletionReply) -> None:
        if isinstance(reply, Progress):
            self.progress = reply
            self._on_progress(reply)
        elif replies := self._open.get(reply.completion):
            replies.put_nowait(reply)

    def _changed(self, connected: bool) -> None:
        if connected:
            self._there.set()
            self._connection.send(Watch())
            return
        self._there.clear()
        self._take(Progress(state="loading", stage="starting"))
        for completion, replies in self._open.items():
            replies.put_nowait(NotCompleted(completion=completion, code="chat_lost", message=LOST))
