"""The program as it is started, held to what `/openapi.json` promises, while people listen. `tests/fuzz` has a server alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.chaos.beside import lengths, unaware
from tests.chaos.house import House
from tests.program import Running, running

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.specs.openapi import checks  # noqa: E402

from tests.fuzz.test_contract import HELD, hold, promised  # noqa: E402

EXAMPLES = 15
# What would take from those who listen what they are to hear
SPARED = ("/v1/voxrtc/policy", "/v1/voxrtc/crowd")


def test_what_is_promised_is_held(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with running(log) as program:
        asyncio.run(_beside(program))
    assert "Traceback" not in log.read_text()


async def _beside(program: Running) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house, real = House(program.pid, http), await lengths(http)
        async with unaware(house, real):
            await asyncio.to_thread(_ask, str(program.base_url))
        await house.idle()


def _ask(url: str) -> None:
    right, wrong = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    for operation in promised(url):
        if operation.path not in SPARED:
            seen = hold(operation.as_strategy(right), HELD, url, EXAMPLES)
            if [*operation.body, *operation.query]:
                seen |= hold(operation.as_strategy(wrong), [*HELD, checks.negative_data_rejection], url, EXAMPLES)
            print(f"  {operation.label}: {sorted(seen)}")
