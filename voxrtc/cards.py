"""Model cards: a YAML file in `models/` says what a model is and where its weights lie. No torch: the page reads them too."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from voxrtc.messages.engine import Sampling
from voxrtc.messages.model import ModelInfo


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
    """What a machine must have, for one listener at a time."""

    memory: float  # GB for the weights, in float32
    stream: float  # GB for each listener's keys and values, in float32
    compute: float  # GFLOP a second of sound
    reads: float = 0  # GB of weights that pass through the processor for a second of sound, in float32; 0: all, once a frame


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """A model's files: the folder that they are in, and where what lacks is to be had."""

    name: str  # the model's
    folder: Path
    sources: list[Source]  # none for a model that comes with the program

    @property
    def unfinished(self) -> Path:
        """A file that is there from the beginning of a download to its end: until then nothing is taken for whole."""
        return self.folder / ".unfinished"

    def missing(self) -> list[Source]:
        """The sources of which files are not there; all, while a download has been begun and not finished."""
        return [source for source in self.sources if self.unfinished.exists() or self._missing(source)]

    def check_files(self) -> None:
        """Raise `CardError` where files of the model are not there."""
        if lacking := self.missing():
            names = ", ".join(f"{source.repo}: {', '.join(self._missing(source) or source.files)}" for source in lacking)
            raise CardError(f"Files of “{self.name}” are not in {self.folder} ({names}). {self.way_to_get(lacking)}")

    def place(self, source: Source) -> Path:
        """The folder that files of `source` go into, by their names in the repository."""
        return Path(os.path.normpath(self.folder / source.into))

    def way_to_get(self, sources: list[Source]) -> str:
        """What a person does to get these files, on any machine that reaches the hub."""
        gates = "".join(f"First accept the terms on {s.link} and run `hf auth login`. " for s in sources if s.gated)
        commands = "\n".join(f"  {self._download(source)}" for source in sources)
        left = f"\n  rm {shlex.quote(str(self.unfinished))}" if self.unfinished.exists() else ""
        return f"{gates}To get them:\n{commands}{left}"

    def _missing(self, source: Source) -> list[str]:
        return [pattern for pattern in source.files if not any(self.place(source).glob(pattern))]

    def _download(self, source: Source) -> str:
        patterns = [word for pattern in source.files for word in ("--include", pattern)]
        place = ["--revision", source.revision, "--local-dir", str(self.place(source))]
        return shlex.join(["hf", "download", source.repo, *patterns, *place])


class Card(Files, frozen=True, kw_only=True):
    """All of a card."""

    info: ModelInfo
    needs: Needs
    defaults: Sampling  # where they differ from the family's
    suggested: Literal["", "cpu"]  # the machine on which a person is pointed to it
    download: float = 0  # GB of its sources, about


def names(models: Path) -> list[str]:
    """The models that have a card in folder `models`."""
    return sorted(path.stem for path in models.glob("*.yaml"))


def read_card(models: Path, name: str) -> Card:
    """The card `name` of folder `models`. Raises `CardError`."""
    try:
        card = _read(models, name)
        info = msgspec.convert(card, ModelInfo)
        if info.name != name:
            raise CardError(f"The card of “{name}” names another model, “{info.name}”: both must be the same.")
        return Card(
            name=name,
            info=info,
            folder=models / card["path"],
            sources=msgspec.convert(card.get("sources", []), list[Source]),
            needs=_needs(card.get("needs"), info),
            defaults=msgspec.convert(card.get("defaults", {}), Sampling),
            suggested=msgspec.convert(card.get("suggested", ""), Literal["", "cpu"]),
            download=msgspec.convert(card.get("download", 0), float),
        )
    except (KeyError, TypeError, yaml.YAMLError, msgspec.ValidationError) as wrong:
        raise CardError(f"The card of “{name}” is incomplete: {wrong}.") from wrong


def _needs(told: Any, info: ModelInfo) -> Needs:
    """What the card says. Where it does not, a model's weights are taken to be all that it needs."""
    weights = 4e-9 * info.parameters
    needs = msgspec.convert(told, Needs) if told else Needs(memory=weights, stream=0, compute=weights / 2 * info.frame_rate)
    return msgspec.structs.replace(needs, reads=needs.reads or needs.memory * info.frame_rate)


def read_files(models: Path, name: str) -> Files:
    """The files of the model `name`, which has a card in folder `models` that says no more than that. Raises `CardError`."""
    try:
        card = _read(models, name)
        return Files(name=name, folder=models / card["path"], sources=msgspec.convert(card["sources"], list[Source]))
    except (KeyError, TypeError, yaml.YAMLError, msgspec.ValidationError) as wrong:
        raise CardError(f"The card of “{name}” is incomplete: {wrong}.") from wrong


def _read(models: Path, name: str) -> dict[str, Any]:
    """What the card says. Raises `CardError` where there is none."""
    if name not in names(models):
        raise CardError(f"There is no model “{name}” in {models}. Known: {', '.join(names(models)) or 'none'}.")
    card: dict[str, Any] = yaml.safe_load((models / f"{name}.yaml").read_text("utf-8"))
    return card
