"""Who asks for what and when: Poisson arrivals of utterances that take 1 to 15 seconds to say. No torch."""

from __future__ import annotations

import random
from dataclasses import dataclass

from voxrtc.crowd.texts import length, text_of

FEWEST, LONGEST = 24, 120.0  # requests of a run, unless they took longer than this many seconds to arrive


@dataclass(frozen=True)
class Request:
    """Something to be said. `at` is in seconds after the start of a run."""

    at: float
    text: str


def planned(rate: float, seconds: float) -> int:
    """Requests of a run of about `seconds`."""
    return max(1, round(min(max(rate * seconds, FEWEST), rate * max(seconds, LONGEST))))


def requests(rate: float, count: int, seed: int) -> list[Request]:
    """The first `count` requests at `rate` a second. With a seed, texts are the same at every rate, and arrivals only scale."""
    arrivals, lengths = random.Random(f"arrivals {seed}"), random.Random(f"lengths {seed}")
    now, made = 0.0, []
    for _ in range(count):
        now += arrivals.expovariate(1.0) / rate
        made.append(Request(now, text_of(length(lengths), lengths)))
    return made
