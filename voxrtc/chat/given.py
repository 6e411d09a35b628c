"""Sounds that the client gives as items of the conversation, on their way to becoming words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from voxrtc.asr.client import Transcriber
from voxrtc.chat.spoken import Spoken, Tell
from voxrtc.rtc.sound import Samples


class Given:
    """Each is taken in beside all else that its session does, and nothing follows upon its words."""

    def __init__(self, transcriber: Transcriber, tell: Tell, understood: Callable[[str, str | None], None]) -> None:
        """`understood` gets an item's id and its words; None: nobody could tell."""
        self._transcriber, self._tell, self._understood = transcriber, tell, understood
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, id: str, blocks: Iterable[Samples]) -> None:
        """All sound of an item."""
        task = asyncio.ensure_future(self._transcribe(id, blocks))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Nobody wants to know any more."""
        for task in self._tasks:
            task.cancel()

    async def _transcribe(self, id: str, blocks: Iterable[Samples]) -> None:
        spoken, given = Spoken(id, self._tell, self._understood, lambda *_: None), 0
        spoken.commit()
        self._transcriber.begin(id, spoken, b"")
        try:
            for block in blocks:
                self._transcriber.hear(id, block.tobytes())
                given += block.nbytes
                await asyncio.sleep(0)  # to make a minute's blocks takes 60 ms, which others cannot wait
        except asyncio.CancelledError:
            self._transcriber.forget(id)
            raise
        self._transcriber.finish(id, given)
