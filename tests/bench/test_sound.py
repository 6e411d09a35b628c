"""The measurement of flows and HiFT, on tiny ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.speechlm.families import tiny_dit
from voxrtc.bench.sound import HEAD, measure


def test_a_row_for_each_number_of_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure("tiny", tiny_dit(tmp_path), [1, 2], calls=1)
    voice, *rows = capsys.readouterr().out.splitlines()
    assert voice.startswith("tiny: a voice takes") and [len(row) for row in rows] == [len(HEAD)] * 2
    for row, streams in zip(rows, "12", strict=True):
        name, n, all_of_them, each, *parts, megabytes = row.split()
        assert (name, n) == ("tiny", streams) and float(each) <= float(all_of_them)
        assert 50 < sum(int(part.rstrip("%")) for part in parts) <= 101, "what is left is little"
        assert float(megabytes) > 0
