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
from pathlib import Path
from voxrtc.niceness import GROUP, give_way, yielding
def told():
    print(os.nice(0), GROUP.read_text().split()[-1] if GROUP.exists() else "none")
give_way(5)
told()
with yielding():
    told()
told()
"""


@pytest.mark.parametrize("alone", [True, False])
def test_who_gives_way_does_so_by_the_session_too_if_that_is_its_own(alone: bool) -> None:
    """Not by that of the shell that started it."""
    before = niceness.GROUP.read_text() if niceness.GROUP.exists() else "none"
    done = subprocess.run([sys.executable, "-c", LOOK], start_new_session=alone, capture_output=True, text=True, check=True)
    usual, nice = before.split()[-1], os.nice(0) + 5
    groups = (f"{nice}", f"{nice + 5}", f"{nice}") if alone and before != "none" else (usual, usual, usual)
    assert done.stdout.splitlines() == [f"{nice} {group}" for group in groups]
    assert not niceness.GROUP.exists() or niceness.GROUP.read_text() == before


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
