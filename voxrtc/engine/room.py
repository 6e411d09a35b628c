"""Which loaded models go, so that there is room for another one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Resident:
    """A model that is loaded, or on its way. Memory is in GB."""

    name: str
    memory: float
    used: float  # when it was used last
    stays: str = ""  # why it must not go, as in “it speaks”; empty: it may


class NoRoom(Exception):
    """A model that cannot be loaded, since too little memory could be made free. The message says what to do."""


def to_unload(model: str, needed: float, room: float, residents: Sequence[Resident]) -> list[str]:
    """The models that have to go before `model`, which needs so much, can be loaded: no more than must, the least recently
    used first. Nothing goes in vain.

    `room` is what all models may hold together. Raises `NoRoom`.
    """
    going: list[str] = []
    left = room - sum(resident.memory for resident in residents)
    for resident in sorted(residents, key=lambda resident: resident.used):
        if needed <= left:
            break
        if not resident.stays:
            going.append(resident.name)
            left += resident.memory
    if needed > left:
        raise NoRoom(_why(model, needed, room, [resident for resident in residents if resident.stays]))
    return going


def _why(model: str, needed: float, room: float, staying: Sequence[Resident]) -> str:
    short = f"“{model}” needs about {needed:.1f} GB, and models may take {max(0.0, room):.1f} GB here."
    if needed > room:
        return f"{short} Choose a smaller one, or give models more memory (VOXRTC_MODEL_MEMORY, if that is set)."
    holders = ", ".join(f"“{each.name}” holds {each.memory:.1f} GB and {each.stays}" for each in staying)
    return f"{short} {holders}. Try again when that is over, or unload what is not needed."
