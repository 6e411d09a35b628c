"""The process of virtual peers: `python -m voxrtc.crowd.process --server http://… --listen ipc://…`.

Settings come from the environment. It ends with the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal

from voxrtc import logs
from voxrtc.crowd.peer import Peer
from voxrtc.engine.transport import Listener
from voxrtc.lifeline import die_with_parent
from voxrtc.messages.crowd import Listened, Peers, Want
from voxrtc.niceness import give_way
from voxrtc.rtc import ice
from voxrtc.settings import Settings

EVERY = 0.2  # seconds between two calls, and between two words on all of them


class Company:
    """As many peers as are wanted."""

    def __init__(self, server: str, key: str) -> None:
        self._server, self._key = server, key
        self._numbers = itertools.count(1)
        self._peers: dict[Peer, asyncio.Task[None]] = {}
        self._heard: list[Listened] = []

    def want(self, want: Want) -> None:
        """Those of another model hang up, and the latest, if there are too many."""
        stay = [peer for peer in self._peers if peer.model == want.model][: want.peers]
        for peer in [peer for peer in self._peers if peer not in stay]:
            self._peers.pop(peer).cancel()
        for place in range(want.peers - len(stay)):
            peer = Peer(next(self._numbers), self._server, self._key, want.model, self._heard.append)
            self._peers[peer] = asyncio.get_running_loop().create_task(peer.live(EVERY * place))

    def news(self) -> Peers:
        """What goes on, and what was heard since the last time."""
        heard, self._heard[:] = self._heard[:], []
        return Peers(peers=[peer.state for peer in self._peers], heard=heard)

    async def close(self) -> None:
        tasks = list(self._peers.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run(server: str, address: str, settings: Settings) -> None:
    """Until SIGTERM or SIGINT, on which all hang up."""
    ice.prepare(settings.ice_loopback)
    (key,), _ = settings.access
    company, listener, clients = Company(server, key), Listener(address, Want), set[bytes]()

    def take(client: bytes, want: Want) -> None:
        clients.add(client)
        company.want(want)

    async def tell() -> None:
        while True:
            await asyncio.sleep(EVERY)
            news = company.news()
            for client in clients:
                listener.send(client, news)

    working = asyncio.gather(listener.serve(take), tell())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working
    await company.close()


def main() -> None:
    """Read the addresses and run."""
    parser = argparse.ArgumentParser(description="Virtual peers of a server; settings come from the environment.")
    parser.add_argument("--server", required=True, help="its address, http://…")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    arguments = parser.parse_args()
    settings = Settings()
    logs.configure("crowd", settings, quiet=("aioice", "aiortc", "httpx"))
    die_with_parent()
    give_way(10)  # all others are here for people
    asyncio.run(run(arguments.server, arguments.listen, settings))


if __name__ == "__main__":
    main()
