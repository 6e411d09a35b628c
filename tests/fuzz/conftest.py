"""How much is tried, and that nothing unforeseen happens meanwhile."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rtc.conftest import anyio_backend, loopback

__all__ = ["anyio_backend", "loopback"]


@pytest.fixture
def calm(caplog: pytest.LogCaptureFixture) -> Iterator[list[Any]]:
    """No error in the log, and none that an event loop was left with."""
    unforeseen: list[Any] = []
    before = asyncio.BaseEventLoop.call_exception_handler

    def note(loop: asyncio.BaseEventLoop, context: dict[str, Any]) -> None:
        unforeseen.append(context)
        before(loop, context)

    gc.collect()  # what other tests have left is theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.BaseEventLoop, "call_exception_handler", note)
        yield unforeseen
        gc.collect()
    assert not unforeseen
    assert not [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
