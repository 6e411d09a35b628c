"""The tiny CSM from its card to a listener: a folder of models, an engine process, the HTTP API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.api.test_recording import file, tone
from tests.speechlm.test_orpheus_served import serving, speak
from tests.tiny import write

FRAME = 1920


@pytest.mark.anyio
@pytest.mark.slow
async def test_csm_speaks_over_http(tmp_path: Path) -> None:
    write("csm", tmp_path / "models" / "csm")
    async with serving(tmp_path, "csm") as http:
        (model,) = (await http.get("/v1/models")).json()["data"]
        assert model["id"] == "csm" and model["voxrtc"]["voices"][:2] == ["0", "1"] and model["voxrtc"]["frame_rate"] == 12.5
        recording = {"input": "Yes.", "response_format": "pcm", "ref_audio": file(tone(2.0)), "ref_text": "La."}
        imitated, *answers = await asyncio.gather(
            http.post("/v1/audio/speech", json=recording),
            speak(http, "csm", "Yes.", "0"),
            speak(http, "csm", "It is.\nIs it?", "2"),  # in two pieces, of which one is told of the other
        )
        assert imitated.status_code == 200 and len(imitated.content) % (2 * FRAME) == 0
        for answer in answers:
            assert answer.status_code == 200
            sound = np.frombuffer(answer.content, "<i2")
            assert len(sound) > 50 * FRAME and len(sound) % FRAME == 0 and np.abs(sound).max() > 300
        assert len(answers[1].content) > 1.5 * len(answers[0].content)
        untold = await http.post("/v1/audio/speech", json={**recording, "ref_text": ""})
        assert untold.status_code == 400 and "give its text" in untold.json()["error"]["message"]
        unknown = await speak(http, "csm", "Hello there.", "alloy")
        assert unknown.status_code == 400 and "3" in unknown.json()["error"]["message"]
