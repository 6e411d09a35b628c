"""What a server has to bear, for as long as is asked: `make test-chaos MINUTES=15`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MINUTES = float(os.environ.get("VOXRTC_CHAOS_MINUTES", "2"))  # that a run takes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are left out of `make test`."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.chaos)
