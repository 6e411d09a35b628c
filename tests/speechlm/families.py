"""Models of every family for the tests that all must pass: what ships, or a tiny one from the golden checkpoints."""

from __future__ import annotations

from pathlib import Path

from tests.tiny import write
from voxrtc.speechlm.orpheus import Orpheus

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")


def write_orpheus(folder: Path) -> Path:
    """The tiny checkpoint, laid out as the real one."""
    write("snac", folder / "snac")
    return write("orpheus", folder)


def tiny_orpheus(folder: Path) -> Orpheus:
    """From a folder that `write_orpheus` wrote."""
    return Orpheus.load(folder, VOICES)
