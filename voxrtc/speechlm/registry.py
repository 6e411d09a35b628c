"""Families by name: a card says which one runs its weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from voxrtc.cards import CardError, read_card
from voxrtc.messages import ModelInfo
from voxrtc.speechlm.base import SpeechLM


def _lark(folder: Path) -> SpeechLM:
    from voxrtc.speechlm.lark.model import Lark

    return Lark.load(folder)


def _pocket(folder: Path) -> SpeechLM:
    from voxrtc.speechlm.pocket.model import Pocket

    return Pocket.load(folder)


# a family is imported only when it is asked for
FAMILIES: dict[str, Callable[[Path], SpeechLM]] = {"lark": _lark, "pocket": _pocket}


def load(models: Path, name: str) -> tuple[ModelInfo, SpeechLM]:
    """Load the model `name` of folder `models`. Raises `CardError`, `speechlm.weights.WeightsError`."""
    info, folder = read_card(models, name)
    if info.family not in FAMILIES:
        raise CardError(f"“{name}” is of family “{info.family}”; known families: {', '.join(sorted(FAMILIES))}.")
    return info, FAMILIES[info.family](folder)
