"""What is said to listeners that are no people: sentences of every length."""

from __future__ import annotations

import json
import random
from functools import cache

from voxrtc.settings import ROOT

CHARACTERS = 14  # that Lark speaks in a second
TEXTS = ROOT / "models/lark/recipe/eval_sentences.json"  # unseen in training


def length(rng: random.Random) -> float:
    """Seconds of an utterance: half of them 1-4, half 1-15."""
    return rng.uniform(1, 4) if rng.random() < 0.5 else rng.uniform(1, 15)


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
