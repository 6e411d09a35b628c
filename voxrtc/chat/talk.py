"""A session, its track, and the line that it has at the time. A line may break: the session is kept for a while, and goes on
over the next one, from where the ear lost it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from voxrtc.chat import events
from voxrtc.chat.allowance import Allowance
from voxrtc.chat.session import Session
from voxrtc.messages.media import Resume
from voxrtc.rtc.sound import Samples
from voxrtc.rtc.track import PlayoutTrack

KEPT = 30.0  # seconds for its client to come back
REMEMBERED = 4  # lines; a client that missed the last ones may have heard an earlier one last
COMING = 4  # lines that are on their way; who finds no way has one or two
FASTEST, BURST = 200, 5.0  # events a second from its client, and seconds' worth of them at once: a page sends ten
FAREWELL = 0.5  # seconds in which who sends more may read why the call is over
TOLD = 512  # events that are remembered for a client that comes back, and may have missed them

log = logging.getLogger(__name__)


class Carrier(Protocol):
    """A line as its talk sees it: `rtc.peer.Peer`, or `rtc.tunnel.Tunnel`."""

    @property
    def state(self) -> str: ...
    @property
    def packets(self) -> int: ...
    def send(self, text: str) -> None: ...
    def attach(self, track: PlayoutTrack) -> None: ...
    def detach(self) -> None: ...
    def number(self, stamp: int) -> int | None: ...
    async def close(self) -> None: ...


class Seat:
    """What one line has for a listener (`rtc.peer.PeerListener`): the talk, from its opening until another line opens."""

    carrier: Carrier  # set by its maker, since a line is made with its listener

    def __init__(self, talk: Talk, call: str, resume: Resume) -> None:
        self.talk, self.call, self.resume = talk, call, resume

    def opened(self) -> None:
        self.talk.take(self)

    def received(self, text: str | bytes) -> None:
        if self.talk.seat is self:
            self.talk.received(text)

    def heard(self, block: Samples) -> None:
        if self.talk.seat is self:
            self.talk.session.heard(block)

    def closed(self) -> None:
        self.talk.leave(self)


class Talk:
    """The session's own line (`speaking.Line`), whatever carries it.

    Only a client that said it would come back (`Resume`) is waited for; it has to show the `token`.
    """

    paced = True  # the track plays the sound

    def __init__(self, session: Session, token: str, over: Callable[[Talk], None]) -> None:
        """Without a `token` nobody can come back."""
        self.session, self.track, self.token = session, PlayoutTrack(session), token
        self.seat: Seat | None = None
        self._seats: deque[Seat] = deque(maxlen=REMEMBERED)
        self._coming: list[Seat] = []
        self._over = over
        self._told: deque[str] = deque(maxlen=TOLD if token else 0)
        self._count = 0  # of events told so far
        self._begun = self._ended = self._flooded = False
        self._allowance = Allowance(FASTEST, BURST, time.monotonic)
        self._waiting: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()  # lines
        self._finishing: asyncio.Task[None] | None = None
        session.line = self

    @property
    def connected(self) -> bool:
        return self.seat is not None and self.seat.carrier.state == "connected"

    @property
    def packets(self) -> int:
        """Of the microphone, that came over the present line."""
        return self.seat.carrier.packets if self.seat else 0

    @property
    def fresh(self) -> bool:
        """No line has ever opened, or is on its way."""
        return not self._begun and self.seat is None

    @property
    def calls(self) -> set[str]:
        """Those of its lines that matter: on their way, or open, of late."""
        return {seat.call for seat in (*self._coming, *self._seats)}

    @property
    def kept(self) -> bool:
        """Nobody is there, and somebody may come back."""
        return self._waiting is not None

    def send(self, text: str) -> None:
        self._told.append(text)
        self._count += 1
        if self.seat:
            self.seat.carrier.send(text)

    def received(self, text: str | bytes) -> None:
        """A client's event. Who sends them faster than anybody could mean to is let go: each takes others' time."""
        if self._flooded:
            return
        if self._allowance.take():
            return self.session.received(text)
        self._flooded = True
        log.warning("a client sends more than %d events a second; letting it go", FASTEST)
        message = f"More than {FASTEST} events a second came for {BURST:.0f} s. This call is over."
        self.send(events.error("rate_limit_exceeded", message))
        asyncio.get_running_loop().call_later(FAREWELL, self.end)

    # --- lines come and go ---

    def begin(self, seat: Seat) -> None:
        """The first line, while it connects: its sound is on the way before its events."""
        self.seat = seat
        seat.carrier.attach(self.track)

    def expect(self, seat: Seat) -> None:
        """A line is on its way. Of those after the first many may never open: then the oldest is given up."""
        if self.fresh:
            return self.begin(seat)
        self._coming.append(seat)
        if len(self._coming) > COMING:
            self._close(self._coming.pop(0))

    def take(self, seat: Seat) -> None:
        """A line has opened: the talk is its."""
        self._arrived(seat)
        if self._ended:
            return self._close(seat)
        if self._waiting:
            self._waiting.cancel()
            self._waiting = None
        before, self.seat = self.seat, seat
        missed: list[str] = []
        if before is not seat:
            missed = self._missed(seat.resume)
            self._move(before, seat)
        self._seats.append(seat)
        if not self._begun:
            self._begun = True
            self.session.opened()
        if self.token:
            self._greet(seat)
        for text in missed:
            seat.carrier.send(text)
        self.track.go()

    def _arrived(self, seat: Seat) -> None:
        if seat in self._coming:
            self._coming.remove(seat)

    def _greet(self, seat: Seat) -> None:
        """What its client needs to come back, and which of its events came last."""
        about = {"token": self.token, "line": seat.call, "kept_ms": round(1000 * KEPT), "took": self.session.took}
        seat.carrier.send(events.event("voxrtc.session", **about))

    def _missed(self, resume: Resume) -> list[str]:
        """Events that were told and did not arrive."""
        return list(self._told)[-(self._count - resume.received) :] if self._count > resume.received else []

    def _move(self, before: Seat | None, seat: Seat) -> None:
        """The sound goes on over another line, with what was not heard of it."""
        heard = seat.resume.heard
        last = next((each for each in self._seats if each.call == seat.resume.line), None)
        number = last.carrier.number(heard) if last and heard is not None else None
        if before:
            before.carrier.detach()
            self._close(before)
        self.track.detach()
        if number is not None:
            self.track.rewind(number + 1)
        seat.carrier.attach(self.track)

    def leave(self, seat: Seat) -> None:
        """A line is gone."""
        self._arrived(seat)
        if seat is not self.seat:
            return
        self.seat = None
        self.track.detach()
        if self._ended:
            return
        if self.token and self._begun:
            self._waiting = asyncio.get_running_loop().call_later(KEPT, self.end)
        else:
            self.end()

    def end(self) -> None:
        """It is over. May be called again."""
        if self._ended:
            return
        self._ended = True
        if self._waiting:
            self._waiting.cancel()
            self._waiting = None
        self.track.stop()
        self.session.closed()
        for seat in [self.seat, *self._coming]:
            if seat:
                self._close(seat)
        if self._closing:
            self._finishing = asyncio.get_running_loop().create_task(self._finish())
        else:
            self._over(self)

    async def close(self) -> None:
        """As `end`; returns when nothing of its lines is left."""
        self.end()
        if self._finishing:
            await asyncio.shield(self._finishing)

    async def _finish(self) -> None:
        await asyncio.gather(*self._closing)
        self._over(self)

    def _close(self, seat: Seat) -> None:
        task = asyncio.get_running_loop().create_task(seat.carrier.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
