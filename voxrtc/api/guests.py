"""How much one address may ask of a public host. Pure: its clock is given."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from voxrtc.api.errors import ApiError

MINUTE = 60.0
LINES = 240  # a minute, in place of others that broke: a page makes some forty while it finds no way
SWEEP = 1024  # addresses known, from which on those that are forgotten are looked for


@dataclass
class _Guest:
    calls: int = 0
    starts: deque[float] = field(default_factory=deque)
    lines: deque[float] = field(default_factory=deque)


def household(address: str) -> str:
    """Who counts as one: an IPv4 address, or a network of IPv6, of which a household has a whole one (RFC 6177)."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv6Address):
        if known.ipv4_mapped:
            return str(known.ipv4_mapped)
        return str(ipaddress.ip_network((known, 64), strict=False))
    return str(known)


class Guests:
    """Calls at a time and starts a minute, by address. What is entered has to leave again."""

    def __init__(self, calls: int, starts: int, clock: Callable[[], float]) -> None:
        self._calls, self._starts, self._clock = calls, starts, clock
        self._guests: dict[str, _Guest] = {}

    def enter(self, address: str) -> None:
        """One call more, or an utterance. Raises `ApiError` 429."""
        guest = self._guest(address)
        if guest.calls >= self._calls:
            message = f"Your address has {guest.calls} calls open here, which is all it may have. Please end one of them."
            raise ApiError(429, "too_many_of_yours", message, retry_after=10)
        self._count(guest.starts, self._starts, "begin")
        guest.calls += 1

    def resume(self, address: str) -> None:
        """Another line for one of its calls. Raises `ApiError` 429."""
        self._count(self._guest(address).lines, LINES, "come back")

    def leave(self, address: str) -> None:
        """One of its calls is over."""
        guest = self._guests[household(address)]
        assert guest.calls > 0
        guest.calls -= 1

    def _guest(self, address: str) -> _Guest:
        now = self._clock()
        self._sweep(now)
        guest = self._guests.setdefault(household(address), _Guest())
        _forget(guest, now)
        return guest

    def _count(self, times: deque[float], most: int, what: str) -> None:
        """Of the last minute. Raises `ApiError` 429."""
        now = self._clock()
        if len(times) >= most:
            message = f"Your address may {what} {most} times a minute. Please wait a moment."
            raise ApiError(429, "too_often", message, retry_after=times[0] + MINUTE - now)
        times.append(now)

    def _sweep(self, now: float) -> None:
        """Whoever calls from ever new addresses fills no memory."""
        if len(self._guests) >= SWEEP:
            for guest in self._guests.values():
                _forget(guest, now)
            there = {address: guest for address, guest in self._guests.items() if guest.calls or guest.starts or guest.lines}
            self._guests = there


def _forget(guest: _Guest, now: float) -> None:
    for times in (guest.starts, guest.lines):
        while times and times[0] <= now - MINUTE:
            times.popleft()
