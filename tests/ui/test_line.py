"""The page's own decisions about its line, in node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def test_the_line_of_the_page() -> None:
    if not (node := shutil.which("node")):
        pytest.skip("no node: Debian has it in nodejs")
    done = subprocess.run(
        [node, "--test", Path(__file__).parent / "line.test.mjs"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
