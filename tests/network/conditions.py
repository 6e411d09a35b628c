"""What a bad link does to the packets of one direction. Pure: the clock is the caller's, chance is seeded."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

QUEUE = 0.25  # seconds of its rate that a link queues; more is dropped
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp"}


@dataclass(frozen=True)
class Conditions:
    """A link's, each way. By default it does no harm."""

    loss: float = 0.0  # of the packets, each by itself
    delay: float = 0.0  # seconds, one way
    jitter: float = 0.0  # seconds that the delay varies up and down, evenly
    ordered: bool = True  # a packet waits for those before it, as in a queue
    rate: float = 0.0  # bit/s; 0: without end
    mtu: int = 65_535  # bytes of an IP packet; larger ones vanish, and nobody is told
    udp: bool = True
    tcp: tuple[int, ...] = ()  # ports at the far side that TCP may use; none: all
    cut: bool = False  # nothing passes

    def __post_init__(self) -> None:
        assert 0 <= self.loss <= 1 and 0 <= self.jitter <= self.delay and self.rate >= 0


class Direction:
    """One way along a link. `counts`: packets that passed, and that did not, by reason; `passed udp` and so on, by protocol."""

    def __init__(self, seed: int) -> None:
        self.conditions = Conditions()
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._free, self._last = 0.0, 0.0  # when the link has sent what it queues, and delivers its latest packet

    def take(self, packet: bytes, now: float) -> float | None:
        """When this IPv4 packet arrives; None: never. `now` must not go back."""
        if reason := self._refusal(packet, now):
            self.counts[reason] += 1
            return None
        self.counts["passed"] += 1
        self.counts[f"passed {PROTOCOLS.get(packet[9], 'other')}"] += 1
        is_ = self.conditions
        self._free = max(now, self._free) + (8 * len(packet) / is_.rate if is_.rate else 0.0)
        due = self._free + is_.delay + self._chance.uniform(-is_.jitter, is_.jitter)
        if is_.ordered:
            due = self._last = max(due, self._last)
        return due

    def _refusal(self, packet: bytes, now: float) -> str:
        is_ = self.conditions
        if is_.cut:
            return "cut"
        if _filtered(packet, is_):
            return "filtered"
        if len(packet) > is_.mtu:
            return "too large"
        if is_.rate and self._free - now > QUEUE:
            return "queue full"
        return "lost" if self._chance.random() < is_.loss else ""


def _filtered(packet: bytes, conditions: Conditions) -> bool:
    """Whether a firewall with these rules would drop it (RFC 791 and 9293 for the fields)."""
    protocol = PROTOCOLS.get(packet[9])
    if protocol == "tcp" and conditions.tcp:
        at = 4 * (packet[0] & 15)
        ports = {int.from_bytes(packet[at : at + 2]), int.from_bytes(packet[at + 2 : at + 4])}
        return not ports & set(conditions.tcp)
    return protocol == "udp" and not conditions.udp
