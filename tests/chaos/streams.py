"""What a listener asked for, and what came of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from voxrtc.api.stats import mark
from voxrtc.crowd.player import Player
from voxrtc.crowd.texts import text_of

IN_HAND = 0.1  # seconds that a listener's player keeps, as browsers' do
RATE = 24_000  # Lark's
TEXTS = [text_of(seconds, random.Random(seed)) for seed, seconds in enumerate((2, 3, 4, 5, 6, 7))]
Way = Literal["pcm", "sse", "peer", "page"]


@dataclass(eq=False)
class Stream:
    """Times are of `time.monotonic`. `told` is the code of the failure that its listener was told of, if any."""

    way: Way
    text: str
    asked: float
    name: str = ""  # as the server knows it
    first: float | None = None  # its first sound, when
    seconds: float = 0.0  # of sound that was heard
    dry: int = 0  # times that it ran dry
    ended: float | None = None
    told: str = ""
    player: Player = field(default_factory=lambda: Player(IN_HAND))  # of who plays what comes

    @property
    def mark(self) -> str:
        """As stats have it; empty while it is not known."""
        return mark(self.name) if self.name else ""

    def heard(self, now: float, seconds: float) -> None:
        """Sound comes, to be played by the listener's own clock."""
        self.first = self.first or now
        self.player.push(now, seconds)
        self.seconds, self.dry = self.player.sound, len(self.player.stalls)

    def note(self, event: dict[str, Any]) -> bool:
        """What an event of its call tells of it, and whether it tells anything."""
        match event:
            case {"type": "response.created", "response": {"id": name}}:
                self.name = name
            case {"type": "error", "error": {"code": code}}:
                self.told = code
            case {"type": "voxrtc.playout", "response_id": self.name, "played_ms": played, "underruns": underruns}:
                self.seconds, self.dry = played / 1000, underruns
            case _:
                return False
        return True

    def open_at(self, moment: float) -> bool:
        return self.asked <= moment <= (self.ended or float("inf"))

    def whole(self, lengths: dict[str, float]) -> bool:
        """Nothing is missing of it, by how long its text is when nothing happens. A track plays frames of 20 ms."""
        slip = 0.05 if self.way in ("peer", "page") else 1e-6
        return not self.told and abs(self.seconds - lengths[self.text]) <= slip

    def viable(self, lengths: dict[str, float]) -> bool:
        return self.whole(lengths) and not self.dry
