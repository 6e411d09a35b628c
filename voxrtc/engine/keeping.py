"""Has a replica of a host, again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from voxrtc.engine.client import Transport
from voxrtc.engine.link import Host, Link


async def keep(host: Host, link: Link, use: Callable[[Link, Transport], Awaitable[None]], tell: Callable[[str], None]) -> None:
    """Until it is drained. `use` has each way to it, as long as that is one; `tell` is told what is being waited for."""
    try:
        while not link.draining:
            await use(link, await host.find(link.name, tell))
            if link.ill:
                link.ill = False
                await host.stop(link.name)
    finally:
        await host.stop(link.name)
