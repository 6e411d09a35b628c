"""asyncio, and loopback as the only network."""

from __future__ import annotations

import aioice.ice
import pytest

from voxrtc.rtc import ice


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aioice.ice, "get_host_addresses", aioice.ice.get_host_addresses)  # put back afterwards
    connection = aioice.ice.Connection
    monkeypatch.setattr(connection, "get_component_candidates", connection.get_component_candidates)
    ice.prepare(loopback=True)
