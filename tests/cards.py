"""Cards of models, written into the folder that a server of a test is told to look in."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.tiny import GOLDEN
from voxrtc.settings import ROOT

TINY = GOLDEN / "pocket" / "languages" / "plain"


def lark_card(folder: Path) -> None:
    """Lark's, whose files stay where they are."""
    card = (ROOT / "models" / "lark.yaml").read_text().replace("path: lark", f"path: {ROOT / 'models' / 'lark'}")
    (folder / "lark.yaml").write_text(card)


def pocket_card(folder: Path, **changed: object) -> None:
    """That of a tiny Pocket-TTS; its files are in the golden data, unless it says otherwise."""
    card = yaml.safe_load((ROOT / "models" / "pocket.yaml").read_text())
    card |= {"name": "tiny", "path": str(TINY), "voices": ["default", "someone"], "sources": [], "needs": None, **changed}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(card))


def fetched() -> dict[str, object]:
    """What a card says whose files are `birds/tiny` of the hub."""
    files = ["model.safetensors", "tokenizer.json", "config.yaml", "embeddings/*"]
    return {"path": "tiny", "sources": [{"repo": "birds/tiny", "revision": "main", "files": files, "licence": "MIT"}]}
