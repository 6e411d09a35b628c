"""The HTTP side over an engine that answers with a tone and a media process that answers with an echo."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from voxrtc.api.app import build_app


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tone() -> ToneTransport:
    return ToneTransport()


@pytest.fixture
def media() -> EchoMedia:
    return EchoMedia()


@pytest.fixture
async def http(tone: ToneTransport, media: EchoMedia) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application without a network between them."""
    transport = httpx.ASGITransport(build_app(tones(tone), media), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        yield client
