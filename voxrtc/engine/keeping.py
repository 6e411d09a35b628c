"""Has a replica of a host, again and again."""

from __future__ import annotations

import logging
from asyncio import sleep
from collections.abc import Awaitable, Callable

from voxrtc.engine.client import Transport
from voxrtc.engine.link import Host, Link

AGAIN, AGAIN_AT_MOST = 0.5, 60.0  # seconds after which it is tried once more to have one; doubled while that goes wrong

log = logging.getLogger(__name__)


async def keep(host: Host, link: Link, use: Callable[[Link, Transport], Awaitable[None]], tell: Callable[[str], None]) -> None:
    """Until it is drained. `use` has each way to it, as long as that is one; `tell` is told what is being waited for."""
    pause = AGAIN
    try:
        while not link.draining:
            try:
                await use(link, await host.find(link.name, tell))
                if link.ill:
                    link.ill = False
                    await host.stop(link.name)
                pause = AGAIN
            except Exception as wrong:  # whatever a host raises, there is to be a replica
                log.exception("%s is tried again in %.1f s", link.name, pause)
                tell(f"trying again: {_gist(wrong)}")
                await sleep(pause)
                pause = min(2 * pause, AGAIN_AT_MOST)
    finally:
        await host.stop(link.name)


def _gist(wrong: Exception) -> str:
    """The last line, where what is remote has the error behind its traceback."""
    return (str(wrong).strip() or type(wrong).__name__).splitlines()[-1]
