"""Which model a person is pointed to, on the kind of machine that this is."""

from __future__ import annotations

from collections.abc import Sequence

from voxrtc import hub
from voxrtc.cards import Card


class Suggestion:
    """The first card that suggests itself for this machine, once it is known that its files are here or can be had."""

    def __init__(self, cards: Sequence[Card], gpu: bool) -> None:
        self._card = next((card for card in cards if card.suggested == "cpu" and not gpu), None)
        self._reachable = False

    def look(self) -> None:
        """Ask the hub, in the background and once, if that matters."""
        if self._card and self._card.missing():
            hub.ask_reachable(self._answered)

    def name(self) -> str:
        """The model's name; empty when there is none to suggest (yet)."""
        return self._card.info.name if self._card and (self._reachable or not self._card.missing()) else ""

    def _answered(self, reachable: bool) -> None:
        self._reachable = reachable
