"""How probably a speaker who pauses has finished: by the words so far, and by the sound where there is a model for it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from voxrtc.asr import cues

log = logging.getLogger(__name__)


def together(words: float, sound: float) -> float:
    """The two probabilities as one: where words are missing at the end, it does not matter how they sound."""
    if words <= cues.OPEN:
        return min(words, sound)
    return 1 / (1 + math.exp(-(_logit(words) + _logit(sound)) / 2))


def _logit(probability: float) -> float:
    inside = min(max(probability, 0.01), 0.99)
    return math.log(inside / (1 - inside))


class TurnEnd:
    """`judge(pcm, text)`. Without a model for the sound the words alone tell."""

    def __init__(self, sound: Callable[[bytes], float] | None) -> None:
        self._sound = sound

    @classmethod
    def load(cls) -> TurnEnd:
        """With smart-turn, where its wheel is installed."""
        from voxrtc.asr.smart_turn import SmartTurn, weights

        if path := weights():
            return cls(SmartTurn(path))
        log.info("smart-turn is not installed: the end of a turn is told by its words alone")
        return cls(None)

    def __call__(self, pcm: bytes, text: str) -> float:
        words = cues.finished(text)
        if self._sound is None or words <= cues.OPEN:
            return words
        return together(words, self._sound(pcm))
