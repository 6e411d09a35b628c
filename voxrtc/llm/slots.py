"""Which conversation's keys and values lie in which slot of the cache. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Slot:
    """A place for one conversation."""

    index: int
    ids: list[int] = field(default_factory=list)  # the tokens whose keys and values it holds
    busy: bool = False  # it is being written to
    used: int = 0  # when it was last given out, counted in givings


@dataclass(frozen=True)
class Place:
    """Where a prompt goes. The first `kept` tokens are there already, or are once they are copied from `donor`."""

    slot: Slot
    kept: int
    donor: Slot | None = None


class Slots:
    """All slots. One that is not busy keeps what it has until another conversation needs it, the least recently used first."""

    def __init__(self, count: int) -> None:
        self.all = [Slot(index) for index in range(count)]
        self._givings = 0

    def find(self, ids: list[int], opening: int) -> Place | None:
        """The place for a prompt, None when all are busy. Who agrees beyond the `opening` is taken to be the same conversation.

        At least the last token is not kept, since it is from it that the next one comes.
        """
        idle = self.idle()
        if not idle:
            return None
        best = max(self.all, key=lambda slot: (common(slot.ids, ids), not slot.busy))
        kept = min(common(best.ids, ids), len(ids) - 1)
        if kept > opening and not best.busy:
            return Place(best, kept)
        empty = next((slot for slot in idle if not slot.ids), idle[0])
        if kept == 0 or empty is best:
            return Place(empty, kept)
        return Place(empty, kept, best)

    def take(self, place: Place) -> None:
        """It is written to from now on."""
        self._givings += 1
        place.slot.used, place.slot.busy = self._givings, True

    def idle(self) -> list[Slot]:
        """Slots that may be given away, the least recently used first."""
        return sorted((slot for slot in self.all if not slot.busy), key=lambda slot: slot.used)


def common(a: list[int], b: list[int]) -> int:
    """How many tokens two sequences begin with alike."""
    least = min(len(a), len(b))
    if a[:least] == b[:least]:
        return least
    return next(i for i in range(least) if a[i] != b[i])
