"""Who asks for what and when: Poisson arrivals of utterances that take 1 to 15 seconds to say. No torch."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache

from voxrtc.settings import ROOT

CHARACTERS = 14  # that Lark speaks in a second
FEWEST, LONGEST = 24, 120.0  # requests of a run, unless they took longer than this many seconds to arrive
TEXTS = ROOT / "models/lark/recipe/eval_sentences.json"  # unseen in training


@dataclass(frozen=True)
class Request:
    """Something to be said. `at` is in seconds after the start of a run."""

    at: float
    text: str


def planned(rate: float, seconds: float) -> int:
    """Requests of a run of about `seconds`."""
    return max(1, round(min(max(rate * seconds, FEWEST), rate * max(seconds, LONGEST))))


def length(rng: random.Random) -> float:
    """Seconds of an utterance: half of them 1-4, half 1-15."""
    return rng.uniform(1, 4) if rng.random() < 0.5 else rng.uniform(1, 15)


def requests(rate: float, count: int, seed: int) -> list[Request]:
    """The first `count` requests at `rate` a second. With a seed, texts are the same at every rate, and arrivals only scale."""
    arrivals, lengths = random.Random(f"arrivals {seed}"), random.Random(f"lengths {seed}")
    now, made = 0.0, []
    for _ in range(count):
        now += arrivals.expovariate(1.0) / rate
        made.append(Request(now, text_of(length(lengths), lengths)))
    return made


def text_of(seconds: float, rng: random.Random) -> str:
    """Sentences that take about `seconds` to say, joined at random: to half of the shortest one, neither less nor more."""
    shortest = len(_texts()[0])
    chosen: list[str] = []
    room = round(seconds * CHARACTERS) + shortest // 2
    while not chosen or room >= shortest:
        chosen.append(rng.choice([text for text in _texts() if len(text) <= max(room, shortest)]))
        room -= len(chosen[-1]) + 1
    return " ".join(chosen)


@cache
def _texts() -> tuple[str, ...]:
    """All texts, shortest first."""
    kinds: dict[str, list[str]] = json.loads(TEXTS.read_text("utf-8"))
    return tuple(sorted((text for texts in kinds.values() for text in texts), key=lambda text: (len(text), text)))
