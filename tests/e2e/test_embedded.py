"""Everything that comes along, from a spoken question to a spoken answer: no network, no account, no GPU.

`VOXRTC_TURNS=11 python -m pytest tests/e2e/test_embedded.py -s` gives the figures of the README.
"""

from __future__ import annotations

import base64
import io
import os
from itertools import cycle, islice, pairwise
from pathlib import Path

import httpx
import numpy as np
import soundfile
import soxr
from playwright.sync_api import Browser

from tests.e2e import ear
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_turns import MOUTH
from tests.program import running

STAGES = (Path(__file__).parent / "stages.js").read_text("utf-8")
TURNS = int(os.environ.get("VOXRTC_TURNS", "1"))
QUESTIONS = ["What is the capital of France?", "Can you recommend a good book?", "How many legs does a spider have?"]
WAY = ("turn", "transcript", "clause", "sent", "heard")


def ask_with(desk: Desk, server: httpx.Client, text: str) -> None:
    """Somebody asks aloud, in Lark's voice."""
    sound = server.post("/v1/audio/speech", json={"model": "lark", "input": text, "response_format": "wav"}).content
    samples, rate = soundfile.read(io.BytesIO(sound), dtype="int16")
    said = soxr.resample(samples, rate, 16_000)
    desk.take()
    desk.page.evaluate("pcm => mouth.say(pcm)", base64.b64encode(said.tobytes()).decode())


def test_a_spoken_question_is_answered_aloud(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path / "log.txt", VOXRTC_CHAT_LOCAL="smollm2-135m") as server:
        page = open_window(browser)
        for script in (MOUTH, STAGES):
            page.add_init_script(script)
        desk = Desk(page, str(server.base_url))
        page.get_by_text("a very small model").wait_for()
        page.evaluate("mouth.open()")
        desk.talk()
        page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
        page.evaluate("recorder.listen()")
        ways, heard = [], []
        for number, question in enumerate(islice(cycle(QUESTIONS), TURNS), 1):
            ask_with(desk, server, question)
            desk.await_sound()
            answer = desk.await_lines(number, "voice")[-1]
            desk.await_state("ready")
            page.wait_for_timeout(400)
            ways.append(page.evaluate("stages.take()"))
            heard.append((answer, ear.transcribe(ear.prepare(*desk.take()))))
            assert not desk.trouble
        asked = desk.await_lines(TURNS)
        page.close()
    for way, question, (answer, _) in zip(ways, asked, heard, strict=True):
        print(" ".join(f"{name} {ms:.0f}" for name, ms in way.items()), "|", question, "->", answer)
    ends = {name: np.median([way[name] for way in ways]) for name in (*WAY, "chunk")}
    print("times the voice ran dry:", sum(way["dry"] for way in ways))
    print("median ms since the end of speech:", {name: round(ms) for name, ms in ends.items()})
    assert "Paris" in heard[0][0]
    assert ear.wer([answer for answer, _ in heard], [words for _, words in heard]) <= 0.2, heard
    assert all(way[a] <= way[b] for way in ways for a, b in pairwise(WAY)), ways
