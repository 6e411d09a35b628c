"""asyncio."""

from __future__ import annotations

from tests.rtc.conftest import anyio_backend

__all__ = ["anyio_backend"]
