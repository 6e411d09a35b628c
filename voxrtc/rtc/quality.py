"""How the sound is encoded, by what the network loses of it. Pure.

Where nothing is lost, Opus' low delay mode, which is the cheapest (44 us a frame) and has no error correction. Where packets
are lost, its speech mode (145 us), in which each packet carries the one before once more, coarsely (RFC 6716, section 2.1.7).
Browsers make use of that by themselves. Changing costs a new encoder, so it is not done for a passing disturbance.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    """`bit_rate` in bit/s; `expected`: percent of packets that get lost; 0: none, and no error correction."""

    bit_rate: int
    expected: int


CLEAN, LOSSY, BAD = Quality(48_000, 0), Quality(32_000, 10), Quality(24_000, 25)
WORSE = {CLEAN: 0.01, LOSSY: 0.12}  # share of lost packets from which on the next one is better
BETTER = {LOSSY: 0.004, BAD: 0.06}  # and below which the one before is, when that lasts
STEPS = [CLEAN, LOSSY, BAD]
CALM = 10.0  # seconds
NEW = 0.4  # weight of a report: one lost packet of fifty is not yet 1%


class Adaptation:
    """Feed it with reports of the share that was lost of late, some seconds' or one's; `quality` is what to encode with."""

    def __init__(self) -> None:
        self.quality = CLEAN
        self._loss = 0.0
        self._calm: float | None = None  # since when less is lost

    def report(self, loss: float, now: float) -> Quality:
        self._loss += NEW * (loss - self._loss)
        step = STEPS.index(self.quality)
        if self._loss >= WORSE.get(self.quality, 2.0):
            self.quality, self._calm = STEPS[step + 1], None
        elif self._loss >= BETTER.get(self.quality, -1.0):
            self._calm = None
        elif self._calm is None:
            self._calm = now
        elif now - self._calm >= CALM:
            self.quality, self._calm = STEPS[max(0, step - 1)], None
        return self.quality
