"""Which models are loaded at a time: makes room for the next one, and knows what each is worth on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec

from voxrtc.cards import Card
from voxrtc.engine.client import EngineLost
from voxrtc.engine.fleet import Fleet, InUse
from voxrtc.engine.room import Resident, to_unload
from voxrtc.fit import Fit, fit, learned_speed, least_memory, whole_cache
from voxrtc.learned import Learned
from voxrtc.machine import Machine, Speed
from voxrtc.messages.model import Use

SHARE = 0.9  # of the memory that is free; what else runs here needs some
LOOK_EVERY = 30.0  # seconds, while nothing happens
SPARE = 1.25  # what a cache is given beyond one stream's, since pages are whole

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budget:
    """What models may take: `memory` GB together, or what is free (0), and caches for so many `streams` each."""

    memory: float = 0
    streams: int = 64


async def _nobody() -> Collection[str]:
    return ()


class Keeper:
    """Loads models of `engines`, whose `cards` it is given by name. Used from one event loop.

    `look` tells of the machine as it is now, `measure` how fast its cores are, `talking` with which models people are in a
    conversation: the default one is not taken from under them.
    """

    def __init__(
        self,
        engines: Fleet,
        cards: Mapping[str, Card],
        learned: Learned,
        look: Callable[[], Machine],
        measure: Callable[[], Awaitable[Speed | None]],
        budget: Budget,
        talking: Callable[[], Awaitable[Collection[str]]] = _nobody,
    ) -> None:
        self._engines, self.cards, self._learned, self._budget = engines, cards, learned, budget
        self._look, self._measure, self._talking = look, measure, talking
        self._loading = asyncio.Lock()
        self.machine = look()
        self.room = budget.memory or SHARE * self.machine.free
        self.held: dict[str, float] = {}  # GB by model, of those that are loaded
        self._measured = False

    def fit(self, model: str) -> Fit:
        """What is to be expected of a model here, by what was seen last."""
        card = self.cards[model]
        return fit(card.needs, card.info.frame_rate, self.machine, self.room, self._learned.speed(card.folder))

    async def load(self, model: str) -> None:
        """Begin to load a model, when others have made room for it if need be.

        Raises `NoRoom`, and `KeyError` for an unknown model.
        """
        card = self.cards[model]
        async with self._loading:
            if self._engines.states()[model].state in ("loading", "ready"):
                return
            cache = await self._make_room(card)
            await self._engines.load(model, cache)

    async def _make_room(self, card: Card) -> float:
        """The GB that the model's cache may take, 0 for what is good. Raises `NoRoom`."""
        model, needed = card.info.name, least_memory(card.needs, self.machine)
        while True:
            residents = [resident for resident in await self._survey() if resident.name != model]  # one that failed makes way
            going = to_unload(model, needed, self.room, residents)
            if not going:
                break
            with contextlib.suppress(InUse):  # somebody has begun to listen: look again
                await self._engines.unload(going[0])
        if not self._budget.memory:
            return 0.0
        left = self.room - needed - sum(resident.memory for resident in residents)
        one = whole_cache(card.needs, self.machine, 1)
        return max(SPARE * one, min(one + left, whole_cache(card.needs, self.machine, self._budget.streams)))

    async def _survey(self) -> list[Resident]:
        """The models that are loaded, as they are now; and with it the machine and its room."""
        uses = {name: await self._use(name) for name, state in self._engines.states().items() if state.state != "unloaded"}
        talking = await self._talking()
        machine = await asyncio.to_thread(self._look)
        self.machine = msgspec.structs.replace(machine, speed=self.machine.speed)
        self.held = {name: use.memory for name, use in uses.items() if use}
        self.room = self._budget.memory or SHARE * machine.free + sum(self.held.values())
        return [self._resident(name, use, talking) for name, use in uses.items()]

    async def _use(self, model: str) -> Use | None:
        """None when it starts, is too busy to answer, or is dead."""
        try:
            return await self._engines.use(model)
        except (EngineLost, TimeoutError):
            return None

    def _resident(self, model: str, use: Use | None, talking: Collection[str]) -> Resident:
        state = self._engines.states()[model].state
        memory, last = (use.memory, use.last) if use else (0.0, 0.0)
        if state == "loading":  # it will take more than it has by now
            return Resident(model, max(memory, least_memory(self.cards[model].needs, self.machine)), last, "is being loaded")
        stays = "speaks" if use and use.live else ""
        if model == self._engines.default and model in talking:
            stays = stays or "is talked with"
        return Resident(model, memory, last, stays)

    # --- what is learned meanwhile ---

    async def watch(self) -> None:
        """Keep what is known of machine and models up to date, until cancelled."""
        while True:
            changed = asyncio.create_task(self._engines.changed())  # from here on, also while this looks
            try:
                try:
                    await self.learn()
                except OSError as error:  # no file is left to look with, say
                    log.warning("nothing is learned of this machine for now (%s)", error)
                await asyncio.wait({changed}, timeout=LOOK_EVERY)
            finally:
                changed.cancel()

    async def learn(self) -> None:
        """Look at the machine, and at how fast the models are that are ready."""
        await self._survey()
        if not self._measured and all(state.state != "loading" for state in self._engines.states().values()):
            self._measured = True  # once, and not while a model is being loaded: it would spoil the figure
            self.machine = msgspec.structs.replace(self.machine, speed=await self._measure())
        with contextlib.suppress(EngineLost):
            for model, stats in (await self._engines.stats()).items():
                card = self.cards[model]
                if speed := learned_speed(stats.costs, card.info.frame_rate):
                    self._learned.note(card.folder, speed)
