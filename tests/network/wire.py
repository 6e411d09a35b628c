"""The wire between machines, a process of its own: `python -m tests.network.wire NAME=NETWORK=FILE …`.

Each machine has a link: a TUN device, an open file of IP packets, and the addresses behind it. A packet passes its sender's
link upwards, then its receiver's downwards. Conditions (`Conditions` as JSON, with the `link`) come by standard input, a line
each; the answer is what that link counted since it was asked before, and once it is there, they hold.

In user space, since many kernels come without netem.
"""

from __future__ import annotations

import heapq
import ipaddress
import itertools
import json
import os
import select
import sys
import time
from contextlib import suppress
from typing import NamedTuple

from tests.network.conditions import Conditions, Direction

LARGEST = 65_535  # bytes of a packet
AT_ONCE = 64  # packets of one device, before the others have their turn
REST = 0.5  # seconds


class Link:
    """A machine's way to the others."""

    def __init__(self, network: str, device: int) -> None:
        self.network, self.device = ipaddress.IPv4Network(network), device
        self.up, self.down = Direction(seed=1), Direction(seed=2)

    def tell(self) -> dict[str, dict[str, int]]:
        """What it counted, each way, since it was asked before."""
        counts = {"up": dict(self.up.counts), "down": dict(self.down.counts)}
        self.up.counts.clear(), self.down.counts.clear()
        return counts


class Arrival(NamedTuple):
    """A packet that will be at the end of a link; `onward` is the link it takes next."""

    due: float
    number: int
    packet: bytes
    link: Link
    onward: Link | None


class Wire:
    def __init__(self, links: dict[str, Link]) -> None:
        self._links = links
        self._arrivals: list[Arrival] = []
        self._numbers = itertools.count()

    def run(self) -> None:
        """Until standard input ends."""
        devices = {link.device: link for link in self._links.values()}
        while True:
            ready, _, _ = select.select([0, *devices], [], [], self._patience())
            for file in ready:
                if file:
                    self._read(devices[file])
                elif not self._listen():
                    return
            self._deliver()

    def _patience(self) -> float:
        return max(0.0, min(REST, self._arrivals[0].due - time.monotonic())) if self._arrivals else REST

    def _listen(self) -> bool:
        line = os.read(0, LARGEST)
        if line:
            wish = json.loads(line)
            link = self._links[wish.pop("link")]
            link.up.conditions = link.down.conditions = Conditions(**wish | {"tcp": tuple(wish["tcp"])})
            print(json.dumps(link.tell()), flush=True)
        return bool(line)

    def _read(self, source: Link) -> None:
        with suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                packet = os.read(source.device, LARGEST)
                target = self._link_of(packet)
                if target and target is not source:
                    self._send(packet, source.up, source, target)

    def _link_of(self, packet: bytes) -> Link | None:
        """Whose it is; nobody's for other than IPv4, and for addresses that there are not."""
        address = ipaddress.IPv4Address(packet[16:20])
        there = (link for link in self._links.values() if address in link.network)
        return next(there, None) if packet[0] >> 4 == 4 else None

    def _send(self, packet: bytes, way: Direction, link: Link, onward: Link | None) -> None:
        due = way.take(packet, time.monotonic())
        if due is not None:
            heapq.heappush(self._arrivals, Arrival(due, next(self._numbers), packet, link, onward))

    def _deliver(self) -> None:
        while self._arrivals and self._arrivals[0].due <= time.monotonic():
            arrival = heapq.heappop(self._arrivals)
            if arrival.onward:
                self._send(arrival.packet, arrival.onward.down, arrival.onward, None)
            else:
                with suppress(BlockingIOError):  # its queue is full, as a link's may be
                    os.write(arrival.link.device, arrival.packet)


def main() -> None:
    links = {name: Link(network, int(file)) for name, network, file in (word.split("=") for word in sys.argv[1:])}
    with suppress(PermissionError):  # other work shall not look like a bad network
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    Wire(links).run()


if __name__ == "__main__":
    main()
