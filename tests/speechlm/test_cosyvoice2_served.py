"""The tiny CosyVoice 2 from its card to a listener: a folder of models, an engine process, the HTTP API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.api.test_recording import file, tone
from tests.speechlm.test_orpheus_served import serving, speak
from tests.tiny import write

FRAME = 960


@pytest.mark.anyio
@pytest.mark.slow
async def test_cosyvoice2_speaks_over_http(tmp_path: Path) -> None:
    write("cosyvoice2", tmp_path / "models" / "cosyvoice2")
    async with serving(tmp_path, "cosyvoice2") as http:
        recording = {"input": "Yes.", "response_format": "pcm", "ref_audio": file(tone(2.0))}
        asked = ({**recording, "ref_text": text} for text in ("La.", ""))
        made = [speak(http, "cosyvoice2", text) for text in ("Yes.", "It is warm.")]
        answers = await asyncio.gather(*made, *(http.post("/v1/audio/speech", json=body) for body in asked))
        for answer in answers:
            assert answer.status_code == 200
            sound = np.frombuffer(answer.content, "<i2")
            assert len(sound) >= 4 * FRAME and len(sound) % FRAME == 0 and np.abs(sound).max() > 100
        assert len({answer.content for answer in answers}) == 4, "other texts, another voice, the voice alone"
