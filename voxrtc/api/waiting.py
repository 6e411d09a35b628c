"""Places for calls, and the line of those who wait for one. Pure: its clock is given.

Who waits holds a ticket and nothing else. When a place is free the first in line is called, and has `CALLED` seconds to come;
nobody takes it from them meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from voxrtc.api.errors import ApiError
from voxrtc.api.guests import household

CALLED = 10.0  # seconds
MOST = 100  # that may wait
EACH = 2  # of one address
TYPICAL = 60.0  # seconds of a call, before any has ended
LEARNED = 0.2  # share of the newest call in the mean


@dataclass(eq=False)
class Ticket:
    """One who waits. `called` is when their place was free, `moved` is called when anything of it changes."""

    address: str
    moved: Callable[[], None]
    number: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    called: float | None = None


class WaitingRoom:
    """`places` for calls at a time."""

    def __init__(self, places: int, clock: Callable[[], float]) -> None:
        self._places, self._clock = places, clock
        self._line: list[Ticket] = []  # the called ones first
        self._calls: dict[str, float] = {}  # since when, by call
        self._mean = TYPICAL

    def take(self, call: str, number: str = "") -> None:
        """A place for a call, of whom was called or, when nobody waits, of anybody. Raises `ApiError` 503."""
        self.look()
        ticket = next((each for each in self._line if number and each.number == number and each.called is not None), None)
        if ticket:
            self._line.remove(ticket)
        elif len(self._calls) + len(self._line) >= self._places:
            waiting = f", and {len(self._line)} wait" if self._line else ""
            message = f"All {self._places} places are taken{waiting}."
            raise ApiError(503, "places_taken", message, retry_after=self.wait(len(self._line) + 1))
        self._calls[call] = self._clock()

    def free(self, call: str) -> None:
        """A call is over, if it was one."""
        if (since := self._calls.pop(call, None)) is not None:
            self._mean += LEARNED * (self._clock() - since - self._mean)
            self.look()

    def join(self, address: str, moved: Callable[[], None]) -> Ticket:
        """Stand in line. Raises `ApiError` 503 or 429."""
        if len(self._line) >= MOST:
            raise ApiError(503, "queue_full", f"{MOST} wait already. Please come back later.", retry_after=self.wait(MOST))
        ticket = Ticket(household(address), moved)
        if sum(each.address == ticket.address for each in self._line) >= EACH:
            raise ApiError(429, "too_many_of_yours", f"Your address waits {EACH} times already.", retry_after=10)
        self._line.append(ticket)
        self.look()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """They gave up, or came."""
        if ticket in self._line:
            self._line.remove(ticket)
            self.look()

    def place(self, ticket: Ticket) -> int:
        """1: the next."""
        return 1 + [each for each in self._line if each.called is None].index(ticket)

    def wait(self, place: int) -> float:
        """Seconds until this place in line has its turn, by Little's law."""
        return max(1.0, place * self._mean / self._places)

    def look(self) -> None:
        """Call whom a place is free for, and leave out whom we called in vain. Changes are told."""
        now = self._clock()
        before = [(each, each.called) for each in self._line]
        self._line = [each for each in self._line if each.called is None or now - each.called < CALLED]
        for ticket in self._line[: max(0, self._places - len(self._calls))]:
            ticket.called = now if ticket.called is None else ticket.called
        if before != [(each, each.called) for each in self._line]:
            for ticket, _ in before:
                ticket.moved()

    @property
    def waiting(self) -> int:
        return len(self._line)
