"""As for `tests/rtc`: asyncio, and loopback as the only network."""

from __future__ import annotations

from tests.rtc.conftest import anyio_backend, loopback

__all__ = ["anyio_backend", "loopback"]
