"""Virtual listeners of one model, as many as are wished for, and what all who look are told of them."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from voxrtc.crowd.company import Company
from voxrtc.crowd.listener import Listener, Phase, Place, Sleep, Speaks
from voxrtc.crowd.tally import Figures, Tally
from voxrtc.messages.crowd import Peers, PeerState
from voxrtc.messages.engine import PolicyName
from voxrtc.messages.model import ModelInfo

EVERY = 0.08  # seconds between two who come at once: a crowd is no single blow
LONELY = 600.0  # seconds after the last look at it, after which a crowd ends, and a policy that was chosen for it
SAMPLE, MINUTE = 0.5, 60.0  # seconds between points of the line, and that it shows
GONE = ("model_not_found", "model_failed")  # failures that will not pass by themselves
RELOAD = 20.0  # seconds that a model may be away before its WebRTC peers, who would call for ever, are told to leave


class Engines(Speaks, Protocol):
    """The engines: a `Fleet`."""

    @property
    def known(self) -> list[ModelInfo]: ...

    def plan_by(self, policy: PolicyName) -> None: ...


class Voice(msgspec.Struct, frozen=True, array_like=True):
    """One virtual listener, as it is drawn."""

    number: int
    phase: Phase
    slack: float  # seconds of sound at hand
    spoilt: bool  # its present utterance has run dry
    place: int  # in the queue; 0: not there
    cause: str  # why it is away: `Failed.code`


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A moment of the last minute."""

    at: float
    playing: int  # streams that have sound, or had
    spoilt: int  # of these, those that have run dry
    waiting: int
    policy: PolicyName


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that is told. `now` is on the same clock as `Point.at`."""

    now: float
    most: int
    listeners: int
    most_peers: int
    peers: int
    calls: list[PeerState]
    model: str
    policy: PolicyName
    voices: list[Voice]
    figures: dict[str, Figures]  # by policy: of the latest time that each was in force
    line: list[Point]
    trouble: str  # why there is no crowd though one was wished for


class NoModel(Exception):
    """Nobody can speak to the crowd; the text says what to do."""


class Crowd:
    """At most `most` listeners, on the event loop that it is used from; with `company`, whole WebRTC peers besides."""

    def __init__(
        self,
        engines: Engines,
        most: int,
        policy: PolicyName = "playout",
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        company: Company | None = None,
    ) -> None:
        self.most, self.policy = most, policy
        self._usual: PolicyName = policy  # which holds when nobody looks
        self._engines, self._clock, self._sleep, self._rng = engines, clock, sleep, rng or random.Random()
        self._company = company
        if company:
            company.heard = self._peers_heard
        self._model = ""
        self._trouble = ""
        self._listeners: dict[Listener, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self._tallies = {policy: Tally(0, clock())}
        self._line: deque[Point] = deque(maxlen=round(MINUTE / SAMPLE))
        self._seen = self._ended = self._known = clock()
        self._watching: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        return len(self._listeners)

    @property
    def peers(self) -> int:
        """Those that are wished for."""
        return self._company.wanted if self._company else 0

    @property
    def most_peers(self) -> int:
        return self._company.most if self._company else 0

    def resize(self, listeners: int, peers: int = 0, model: str = "") -> None:
        """Have so many, of this model, or of the present one, or of the default. Those who are there stay, if they can.

        Raises `NoModel`.
        """
        assert 0 <= listeners <= self.most and 0 <= peers <= self.most_peers
        model = self._choose(model) if listeners + peers else self._model
        other = (listeners, peers, model) != (self.size, self.peers, self._model)
        if model != self._model:
            self._dismiss(0)
        if other:
            self._tallies[self.policy].close(self._clock())
            if listeners + peers:
                self._count_anew(listeners + peers)
        self._model, self._trouble = model, ""
        self._invite(peers)
        self._dismiss(listeners)
        for place in range(listeners - self.size):
            self._come(EVERY * place)
        self.look()

    def plan_by(self, policy: PolicyName) -> None:
        """Have the engines plan by another policy, and count what comes of that."""
        if policy != self.policy:
            self._tallies[self.policy].close(self._clock())
            self.policy = policy
            self._count_anew(self.size + self.peers)
            self._keep_watch()
        self._engines.plan_by(policy)
        self.look()

    def look(self) -> State:
        """Somebody looks: what there is to be seen."""
        self._seen = self._clock()
        now = self._seen if self._there else self._ended  # what stands still is no news
        return State(
            now=round(now, 3),
            most=self.most,
            listeners=self.size,
            most_peers=self.most_peers,
            peers=self.peers,
            calls=self._company.peers if self._company else [],
            model=self._model,
            policy=self.policy,
            voices=[self._voice(listener, now) for listener in self._listeners],
            figures={policy: tally.figures(now) for policy, tally in self._tallies.items()},
            line=list(self._line),
            trouble=self._trouble,
        )

    async def close(self) -> None:
        """All leave."""
        tasks = [*self._listeners.values(), *([self._watching] if self._watching else [])]
        self._end()
        if self._watching:
            self._watching.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._company:
            await self._company.close()

    # --- who comes and goes ---

    def _choose(self, model: str) -> str:
        known = [info.name for info in self._engines.known]
        wanted = model or (self._model if self._model in known else "") or next(iter(known), "")
        if wanted in known and wanted:
            return wanted
        raise NoModel(f"The model “{wanted[:64]}” is not loaded." if wanted else "No model is loaded. Load one on the page.")

    def _come(self, after: float) -> None:
        place = Place(self._engines, self._model, self._clock, self._sleep, lambda: self._tallies[self.policy])
        listener = Listener(next(self._numbers), place, random.Random(self._rng.getrandbits(64)))
        self._listeners[listener] = asyncio.get_running_loop().create_task(listener.live(after))
        self._keep_watch()

    def _dismiss(self, left: int) -> None:
        """All but so many leave, the latest first."""
        for listener in list(self._listeners)[left:]:
            self._listeners.pop(listener).cancel()
        self._ended = self._clock()

    def _invite(self, peers: int) -> None:
        if self._company:
            self._company.want(peers, self._model)
        if peers:
            self._keep_watch()

    def _end(self) -> None:
        self._invite(0)
        self._dismiss(0)

    def _count_anew(self, listeners: int) -> None:
        """Of the present policy. What counted for others was in other company, and stays as it was."""
        self._tallies[self.policy] = Tally(listeners, self._clock())

    # --- while there are any ---

    @property
    def _there(self) -> bool:
        """Anybody."""
        return bool(self._listeners or self.peers)

    def _keep_watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while self._there or self.policy != self._usual:
            self._sample()
            if self._clock() - self._seen > LONELY:
                self._end()
                self.plan_by(self._usual)
            elif failure := self._gone():
                self._trouble = f"“{self._model}” cannot speak any more ({failure.replace('_', ' ')})."
                self._end()
            await self._sleep(SAMPLE)
        self._sample()

    def _gone(self) -> str:
        """Why the model will not speak again by itself; empty: it does, or may."""
        now = self._clock()
        if not self.peers or any(info.name == self._model for info in self._engines.known):
            self._known = now
        elif now - self._known > RELOAD:
            return "model_not_found"
        return next((each.failure for each in self._listeners if each.failure in GONE), "")

    def _sample(self) -> None:
        if not (self._there or (self._line and (self._line[-1].playing or self._line[-1].waiting))):
            return  # it has shown that all have left
        now = self._clock()
        for listener in self._listeners:
            listener.look()
        phases = [(listener.phase(now), listener.spoilt(now)) for listener in self._listeners]
        sounding = [spoilt for phase, spoilt in phases if phase in ("playing", "dry")]
        waiting = sum(phase == "waiting" for phase, _ in phases)
        self._line.append(Point(round(now, 2), len(sounding), sum(sounding), waiting, self.policy))

    def _peers_heard(self, news: Peers) -> None:
        tally = self._tallies[self.policy]
        for each in news.heard:
            if each.asked >= tally.since:
                tally.first_sound(each.ttfa)
                if each.underruns:
                    tally.ran_dry()

    @staticmethod
    def _voice(listener: Listener, now: float) -> Voice:
        phase, slack = listener.phase(now), round(listener.slack(now), 2)
        return Voice(listener.number, phase, slack, listener.spoilt(now), listener.place, listener.failure)
