"""Model cards: a YAML file in `models/` says what a model is and where its weights lie. No torch: the page reads them too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from voxrtc.messages import ModelInfo


class CardError(Exception):
    """A card that is missing or does not say what it must."""


def names(models: Path) -> list[str]:
    """The models that have a card in folder `models`."""
    return sorted(path.stem for path in models.glob("*.yaml"))


def read_card(models: Path, name: str) -> tuple[ModelInfo, Path]:
    """The card `name` of folder `models`, and the folder of its weights. Raises `CardError`."""
    if name not in names(models):
        raise CardError(f"There is no model “{name}” in {models}. Known: {', '.join(names(models)) or 'none'}.")
    card: dict[str, Any] = yaml.safe_load((models / f"{name}.yaml").read_text("utf-8"))
    try:
        folder = models / card["path"]
        return ModelInfo(**{key: value for key, value in card.items() if key in ModelInfo.__struct_fields__}), folder
    except (KeyError, TypeError) as wrong:
        raise CardError(f"The card of “{name}” is incomplete: {wrong}.") from wrong
