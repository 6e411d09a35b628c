"""Calls of a server that is about to end: each is told so, may finish what is being said, and is told when it is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from voxrtc.chat import events
from voxrtc.chat.socket import Socket
from voxrtc.chat.talk import FAREWELL, Talk

LOOK_EVERY = 0.1  # seconds
CODE, MESSAGE = "shutting_down", "This server was shut down, and the call is over. You are welcome to call again in a minute."


async def drain(talks: Collection[Talk | Socket], seconds: float) -> None:
    """Until all are over. `seconds` are what a response that is being spoken has."""
    await asyncio.gather(*(_end(talk, seconds) for talk in talks))


async def _end(talk: Talk | Socket, seconds: float) -> None:
    message = f"This server is being shut down: the call ends once this is said, in {seconds:.0f} seconds at the latest."
    talk.send(events.event("voxrtc.ending", seconds=seconds, message=message))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while talk.connected and talk.session.speaking.sounding:
                await asyncio.sleep(LOOK_EVERY)
    talk.send(events.error(CODE, MESSAGE))
    await asyncio.sleep(FAREWELL)
    await talk.close()
