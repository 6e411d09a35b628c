"""How many streams of 10 s at a time the engine sustains without a stall, beside what its model's steps alone would allow."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from voxrtc.bench.load import Hearing, listen
from voxrtc.bench.model_steps import Steps, model_steps
from voxrtc.bench.search import Search
from voxrtc.bench.systems import WARM_UP, policy, running
from voxrtc.bench.workload import Request
from voxrtc.crowd.texts import text_of

LENGTH, SPREAD = 10.0, 2.0  # seconds of a stream, and over which all come
SLOTS = 128  # more than any number tried, so that only time is short


@dataclass(frozen=True)
class Capacity:
    """What was sustained, and what the model's steps would allow."""

    sustained: int
    steps: Steps

    def report(self) -> dict[str, Any]:
        """For programs."""
        bounds = {"bound": self.steps.bound, "bound_side_by_side": self.steps.bound_side_by_side}
        shares = {f"sustained / {name}": self.sustained / bound for name, bound in bounds.items()}
        return {"sustained": self.sustained, **bounds, **shares, "best_batch": asdict(self.steps)}

    def line(self) -> str:
        """For people."""
        one, two = self.steps.bound, self.steps.bound_side_by_side
        return (
            f"{self.sustained} streams at a time. The model's steps at their best batch, {self.steps.streams}, allow "
            f"{one:.1f} on one core ({self.sustained / one:.2f}), {two:.1f} with the detokenizer on another "
            f"({self.sustained / two:.2f})."
        )


def burst(streams: int, seed: int) -> list[Request]:
    """As many requests, evenly over `SPREAD`."""
    rng = random.Random(seed)
    return [Request(number * SPREAD / streams, text_of(LENGTH, rng)) for number in range(streams)]


def stalled(hearings: Sequence[Hearing], now: float) -> bool:
    """Somebody's sound ran dry, or was not made."""
    return any(h.player.stalled or h.failure for h in hearings)


def together(hearings: Sequence[Hearing]) -> bool:
    """All were heard whole and without a stall, and nobody was held at the door until another had finished listening."""
    if stalled(hearings, 0.0) or not all(h.done for h in hearings):
        return False
    return max(h.arrivals[0][0] for h in hearings) < min(h.player.ends for h in hearings)


async def capacity(seed: int, say: Callable[[str], None]) -> Capacity:
    """Try numbers of streams until a few in a hundred more fail."""
    steps = model_steps()
    say(f"model's steps: {steps}")
    (system,) = policy("playout")
    spacious = system.settings.model_copy(update={"max_streams": SLOTS, "max_waiting": SLOTS})
    search = Search(max(1.0, 0.7 * steps.bound), precision=1.03, lowest=1.0, highest=SLOTS)
    outcomes: dict[int, bool] = {}
    async with running(replace(system, settings=spacious)) as server:
        while not search.done:
            streams = round(search.rate)
            if streams not in outcomes:
                await listen(server.client, [Request(0.0, text) for text in WARM_UP])
                outcomes[streams] = together(await listen(server.client, burst(streams, seed), stalled))
                say(f"{streams} streams: {'sustained' if outcomes[streams] else 'not sustained'}")
            search.tell(outcomes[streams])
    return Capacity(max((n for n, sustained in outcomes.items() if sustained), default=0), steps)
