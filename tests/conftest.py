"""Settings of the whole test run."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings

os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nobody: no test asks the real hub, nor does a process that one starts

torch.set_num_threads(1)  # small matrices, and other tests' processes beside them
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


@pytest.fixture
def anyio_backend() -> str:
    """Everything here is asyncio."""
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright keeps an event loop running in this thread, beside which no other can run. The slow ones
    of the others first, so that in the end no worker has much left when the others have nothing."""
    items.sort(key=lambda item: ("e2e" in item.path.parts, item.get_closest_marker("slow") is None))
