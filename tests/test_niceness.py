"""Whose work goes first, by niceness and by what Linux weighs sessions with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from voxrtc import niceness

LOOK = """
import os
from voxrtc.niceness import give_way, yielding
from tests.test_niceness import group
def told():
    print(os.nice(0), group())
told()
give_way(5)
told()
with yielding():
    told()
told()
"""


def group() -> str:
    """The niceness of this process' session. None where it has no say: no such file; one that may not be written; an empty one,
    as in a container where nothing has begun a session since its start."""
    words = niceness.GROUP.read_text().split() if os.access(niceness.GROUP, os.R_OK | os.W_OK) else []
    return words[-1] if words else "none"


@pytest.mark.parametrize("alone", [True, False])
def test_who_gives_way_does_so_by_the_session_too_if_that_is_its_own(alone: bool) -> None:
    """Not by that of the shell that started it."""
    root, look = Path(__file__).parents[1], [sys.executable, "-c", LOOK]
    before, nice = group(), os.nice(0)
    done = subprocess.run(look, start_new_session=alone, cwd=root, capture_output=True, text=True, check=True)
    first, *then = done.stdout.splitlines()
    usual = first.split()[-1]
    groups = (f"{nice + 5}", f"{nice + 10}", f"{nice + 5}") if alone and usual != "none" else (usual, usual, usual)
    assert then == [f"{nice + 5} {told}" for told in groups]
    assert group() == before and (alone or usual == before)


def test_it_yields_while_it_loads_and_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "autogroup"
    group.write_text("0")
    monkeypatch.setattr(niceness, "GROUP", group)
    monkeypatch.setattr(os, "getsid", lambda pid: os.getpid())
    with pytest.raises(MemoryError), niceness.yielding():
        assert group.read_text() == str(os.nice(0) + niceness.YIELDING)
        raise MemoryError
    assert group.read_text() == str(os.nice(0))
    monkeypatch.setattr(niceness, "GROUP", tmp_path / "no" / "such file")
    with niceness.yielding():
        pass  # another system
