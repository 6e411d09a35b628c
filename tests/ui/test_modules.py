"""The page's pure modules, under Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from voxrtc.ui.page import STATIC

TESTS = Path(__file__).parent / "js"


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node")
def test_modules(tmp_path: Path) -> None:
    """In a folder that says that they are modules, which older Nodes want to be told."""
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(STATIC / "js", tmp_path / "js")
    shutil.copytree(TESTS, tmp_path / "tests")
    files = [f"tests/{path.name}" for path in TESTS.glob("*.test.js")]
    done = subprocess.run(["node", "--test", *files], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert "# pass" in done.stdout and "# tests 0" not in done.stdout
