"""What a link does to packets, without a network."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.network.conditions import QUEUE, Conditions, Direction

TCP, UDP = 6, 17


def packet(protocol: int = UDP, source: int = 40_000, target: int = 50_000, size: int = 200) -> bytes:
    """An IPv4 packet as far as a link looks at it."""
    header = bytes([0x45, *[0] * 8, protocol, *[0] * 10])
    return (header + source.to_bytes(2) + target.to_bytes(2)).ljust(size, b"\0")


def direction(**conditions: object) -> Direction:
    way = Direction(seed=1)
    way.conditions = Conditions(**conditions)  # type: ignore[arg-type]
    return way


def test_a_good_link_passes_everything_at_once() -> None:
    way = direction()
    assert [way.take(packet(protocol), 3.0) for protocol in (1, TCP, UDP, 99)] == [3.0] * 4
    assert way.counts == {"passed": 4, "passed icmp": 1, "passed tcp": 1, "passed udp": 1, "passed other": 1}


def test_loss_and_delay_are_those_that_were_asked_for() -> None:
    """Over 20 000 packets, a second apart, so that none waits for another."""
    way = direction(loss=0.02, delay=0.05, jitter=0.03)
    delays = [due - now for now in range(20_000) if (due := way.take(packet(), float(now))) is not None]
    assert len(delays) / 20_000 == pytest.approx(0.98, abs=0.004)
    assert statistics.mean(delays) == pytest.approx(0.05, abs=0.001)
    assert statistics.pstdev(delays) == pytest.approx(0.06 / 12**0.5, rel=0.02)
    assert 0.02 <= min(delays) and max(delays) <= 0.08


@given(st.lists(st.floats(0, 0.02), min_size=2, max_size=50))
def test_packets_keep_their_order(gaps: list[float]) -> None:
    """And none arrives before it could."""
    way, now, last = direction(delay=0.05, jitter=0.03), 0.0, 0.0
    for gap in gaps:
        now += gap
        due = way.take(packet(), now)
        assert due is not None and due >= max(last, now + 0.02)
        last = due


def test_packets_overtake_where_they_may() -> None:
    way = direction(delay=0.05, jitter=0.05, ordered=False)
    dues = [way.take(packet(), number / 100) for number in range(100)]
    assert dues != sorted(dues, key=lambda due: due or 0)


def test_a_narrow_link_queues_and_then_drops() -> None:
    """1000 bytes at 80 kbit/s take 0.1 s; a quarter of a second may wait."""
    way = direction(rate=80_000)
    dues = [way.take(packet(size=1000), 0.0) for _ in range(5)]
    assert dues == [pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.3), None, None]
    assert 0.2 < QUEUE < 0.3
    assert way.take(packet(size=1000), 1.0) == pytest.approx(1.1)
    assert way.counts["queue full"] == 2


def test_filters() -> None:
    way = direction(udp=False, tcp=(443,))
    assert way.take(packet(UDP), 0) is None
    assert way.take(packet(TCP, 50_000, 7860), 0) is None
    assert way.take(packet(TCP, 50_000, 443), 0) == way.take(packet(TCP, 443, 50_000), 0) == 0
    assert way.counts["filtered"] == 2


def test_too_large_and_cut() -> None:
    way = direction(mtu=1280)
    assert way.take(packet(size=1280), 0) == 0 and way.take(packet(size=1281), 0) is None
    way.conditions = Conditions(cut=True)
    assert way.take(packet(), 0) is None
    assert way.counts == {"passed": 1, "passed udp": 1, "too large": 1, "cut": 1}
