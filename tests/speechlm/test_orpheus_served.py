"""The tiny Orpheus from its card to a listener: a folder of models, an engine process, the HTTP API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.fake_media import EchoMedia
from tests.speechlm.families import write_orpheus
from voxrtc.api.app import build_app
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.transport import ZmqTransport
from voxrtc.settings import ROOT, Settings
from voxrtc.supervisor import Child, Supervisor

FRAME = 2048


@contextlib.asynccontextmanager
async def serving(folder: Path, model: str) -> AsyncIterator[httpx.AsyncClient]:
    """`model`, whose files lie in `folder / "models"` where its card that ships wants them."""
    (folder / "models" / f"{model}.yaml").write_text((ROOT / "models" / f"{model}.yaml").read_text())
    settings = Settings(models=folder / "models", model=model, max_streams=4)
    address = f"ipc://{folder}/engine"
    async with Supervisor([Child("engine", ["-m", "voxrtc.engine.process", "--listen", address], settings.environment())]):
        engines = Fleet({model: ZmqTransport(address)})
        await asyncio.wait_for(engines.until_known(), 60)
        transport = httpx.ASGITransport(build_app(engines, EchoMedia()))
        async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc", timeout=60) as client:
            yield client
        await engines.close()


async def speak(http: httpx.AsyncClient, model: str, text: str, voice: str = "default") -> httpx.Response:
    wanted = {"model": model, "input": text, "voice": voice, "response_format": "pcm"}
    return await http.post("/v1/audio/speech", json=wanted)


@pytest.mark.anyio
@pytest.mark.slow
async def test_orpheus_speaks_over_http(tmp_path: Path) -> None:
    write_orpheus(tmp_path / "models" / "orpheus")
    async with serving(tmp_path, "orpheus") as http:
        (model,) = (await http.get("/v1/models")).json()["data"]
        assert model["id"] == "orpheus" and "zoe" in model["voxrtc"]["voices"]
        assert model["voxrtc"]["frame_rate"] == 7 * 24_000 / FRAME
        answers = await asyncio.gather(*(speak(http, "orpheus", "Hello there.", voice) for voice in ("default", "zac", "mia")))
        for answer in answers:
            assert answer.status_code == 200
            sound = np.frombuffer(answer.content, "<i2")
            assert len(sound) > FRAME and len(sound) % FRAME == 0 and np.abs(sound).max() > 300
        unknown = await speak(http, "orpheus", "Hello there.", "alloy")
        assert unknown.status_code == 400 and "tara" in unknown.json()["error"]["message"]
        wave = await http.post("/v1/audio/speech", json={"input": "Yes.", "response_format": "wav"})
        assert wave.content[:4] == b"RIFF" and int.from_bytes(wave.content[24:28], "little") == 24_000
