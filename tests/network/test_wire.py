"""Is the wire honest? What it does is measured with sockets, and compared with what was asked of it."""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.network.conditions import Conditions
from tests.network.machines import NOWHERE, RELAY, SERVER, Machines
from tests.network.namespace import Namespace

PROBES = 1_000
EVERY = 0.01  # seconds: longer than the wire takes for a packet, shorter than its jitter


@contextmanager
def udp(namespace: Namespace) -> Iterator[socket.socket]:
    with namespace.inside(), socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.settimeout(1)
        yield probe


def one_way(sender: socket.socket, receiver: socket.socket, address: str, count: int = PROBES) -> list[tuple[int, float]]:
    """Send datagrams of their number; those that came, in the order in which they came, with the seconds they took."""
    receiver.bind((address, 0))
    target = receiver.getsockname()
    sent, came = [0.0] * count, []

    def send() -> None:
        for number in range(count):
            sent[number] = time.monotonic()
            sender.sendto(struct.pack("!I", number), target)
            time.sleep(EVERY)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        while True:
            (number,) = struct.unpack("!I", receiver.recv(64))
            came.append((number, time.monotonic() - sent[number]))
    except TimeoutError:
        sending.join()
    return came


def test_a_good_wire_is_no_obstacle(wire: Machines) -> None:
    """All comes, in order, and hardly later than it was sent."""
    with udp(wire.person) as sender, udp(wire.server) as receiver:
        came = one_way(sender, receiver, SERVER, 200)
    assert [number for number, _ in came] == list(range(200))
    assert statistics.median(took for _, took in came) < 0.005


def test_loss_and_delay_are_as_asked(wire: Machines) -> None:
    """Of packets that keep their order: a packet is as late as the latest before it, so the mean is above the link's."""
    wire.set(Conditions(loss=0.1, delay=0.05, jitter=0.03))
    with udp(wire.person) as sender, udp(wire.server) as receiver:
        came = one_way(sender, receiver, SERVER)
    counts = wire.set(Conditions())["up"]
    numbers, delays = [number for number, _ in came], [took for _, took in came]
    print(f"{len(came)} of {PROBES} came, after {1000 * statistics.median(delays):.1f} ms (median; 20-80)")
    assert numbers == sorted(numbers)
    assert len(came) == counts["passed udp"] and PROBES == counts["passed"] + counts["lost"]
    assert len(came) / PROBES == pytest.approx(0.9, abs=0.03)
    assert min(delays) >= 0.02
    assert 0.05 <= statistics.median(delays) <= 0.08


def test_the_other_way_is_as_bad(wire: Machines) -> None:
    """Without jitter a packet takes as long as was asked, and hardly longer."""
    wire.set(Conditions(delay=0.05))
    with udp(wire.server) as sender, udp(wire.person) as receiver:
        came = one_way(sender, receiver, "10.77.1.2", 200)
    assert len(came) == 200
    assert min(took for _, took in came) >= 0.05
    assert statistics.median(took for _, took in came) == pytest.approx(0.05, abs=0.005)


def test_only_the_persons_link_is_bad(wire: Machines) -> None:
    """The server and the relay reach each other."""
    wire.set(Conditions(cut=True))
    with udp(wire.server) as sender, udp(wire.relay) as receiver:
        assert len(one_way(sender, receiver, RELAY, 20)) == 20
    with udp(wire.person) as sender, udp(wire.server) as receiver:
        assert not one_way(sender, receiver, SERVER, 20)


def test_udp_is_blocked_and_tcp_is_not(wire: Machines) -> None:
    """But for the ports that are not allowed: there nobody even refuses."""
    wire.set(Conditions(udp=False, tcp=(443,)))
    with udp(wire.person) as sender, udp(wire.server) as receiver:
        assert not one_way(sender, receiver, SERVER, 20)
    with wire.server.inside():
        doors = [socket.create_server((SERVER, port)) for port in (443, 80)]
    with doors[0], doors[1], wire.person.inside():
        socket.create_connection((SERVER, 443), 5).close()
        with pytest.raises(TimeoutError):
            socket.create_connection((SERVER, 80), 1)


def test_nobody_answers_from_nowhere(wire: Machines) -> None:
    """A black hole refuses nothing."""
    with wire.person.inside(), pytest.raises(TimeoutError):
        socket.create_connection((NOWHERE, 80), 1)


def test_large_packets_vanish(wire: Machines) -> None:
    """At 1280 bytes, IP's and UDP's headers (28) included."""
    wire.set(Conditions(mtu=1280))
    with udp(wire.person) as sender, udp(wire.server) as receiver:
        receiver.bind((SERVER, 0))
        for size in (1253, 1252):
            sender.sendto(bytes(size), receiver.getsockname())
        assert len(receiver.recv(2000)) == 1252
        with pytest.raises(TimeoutError):
            receiver.recv(2000)
