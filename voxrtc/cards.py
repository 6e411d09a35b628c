"""Model cards: a YAML file in `models/` says what a model is and where its weights lie. No torch: the page reads them too."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import msgspec
import yaml

from voxrtc.messages import ModelInfo, Sampling


class CardError(Exception):
    """A card that is missing, does not say what it must, or speaks of files that are not there. Says what to do."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a repository on the Hugging Face hub that belong into a model's folder."""

    repo: str
    revision: str
    files: list[str]  # names, or patterns like `model*.safetensors`
    licence: str
    gated: bool = False  # a person must have accepted its terms
    into: str = "."  # folder, seen from the model's

    @property
    def link(self) -> str:
        """Its page."""
        return f"https://huggingface.co/{self.repo}"


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine must have."""

    memory: float  # GB for the weights, in float32
    stream: float  # GB for each listener's keys and values, in float32
    compute: float  # GFLOP a second of sound


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """All of a card."""

    info: ModelInfo
    folder: Path  # of its files
    sources: list[Source]  # none for a model that comes with the program
    needs: Needs | None
    defaults: Sampling  # where they differ from the family's

    def check_files(self) -> None:
        """Raise `CardError` where files of the model are not there."""
        lacking = [source for source in self.sources if self._missing(source)]
        if not lacking:
            return
        names = ", ".join(f"{source.repo}: {', '.join(self._missing(source))}" for source in lacking)
        gates = "".join(f" First accept the terms on {s.link} and run `hf auth login`." for s in lacking if s.gated)
        commands = "\n".join(f"  {self._download(source)}" for source in lacking)
        raise CardError(f"Files of “{self.info.name}” are not in {self.folder} ({names}).{gates} To get them:\n{commands}")

    def _missing(self, source: Source) -> list[str]:
        return [pattern for pattern in source.files if not any(self._place(source).glob(pattern))]

    def _place(self, source: Source) -> Path:
        return Path(os.path.normpath(self.folder / source.into))

    def _download(self, source: Source) -> str:
        patterns = [word for pattern in source.files for word in ("--include", pattern)]
        place = ["--revision", source.revision, "--local-dir", str(self._place(source))]
        return shlex.join(["hf", "download", source.repo, *patterns, *place])


def names(models: Path) -> list[str]:
    """The models that have a card in folder `models`."""
    return sorted(path.stem for path in models.glob("*.yaml"))


def read_card(models: Path, name: str) -> Card:
    """The card `name` of folder `models`. Raises `CardError`."""
    if name not in names(models):
        raise CardError(f"There is no model “{name}” in {models}. Known: {', '.join(names(models)) or 'none'}.")
    try:
        card: dict[str, Any] = yaml.safe_load((models / f"{name}.yaml").read_text("utf-8"))
        return Card(
            info=msgspec.convert(card, ModelInfo),
            folder=models / card["path"],
            sources=msgspec.convert(card.get("sources", []), list[Source]),
            needs=msgspec.convert(card.get("needs"), Needs | None),
            defaults=msgspec.convert(card.get("defaults", {}), Sampling),
        )
    except (KeyError, TypeError, yaml.YAMLError, msgspec.ValidationError) as wrong:
        raise CardError(f"The card of “{name}” is incomplete: {wrong}.") from wrong
