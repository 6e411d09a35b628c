"""OpenAI's own client for JavaScript, unchanged: over WebSocket in Node, over WebRTC in Chromium. A turn, an interruption, a
truncation, a tool."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import soxr
from fastapi import FastAPI
from playwright.sync_api import Page, Playwright, Route

from tests.e2e import ear
from tests.e2e.conftest import chromium
from tests.e2e.desk import PATIENCE, SCRIPTS, open_window
from tests.e2e.test_calls import LONG
from tests.e2e.test_talk import RATE, silence, voice
from tests.speech import SAID, recorded
from voxrtc.chat.reply import ToolCall

CLIENTS = Path(__file__).parent / "clients"
BUNDLE = CLIENTS / "node_modules/@openai/agents-realtime/dist/bundle"
FIRST, LAST = f"That is a good question, I think. {LONG}", "It rains in Oslo, as it often does."
ANSWERS = [FIRST, ToolCall("call_1", "weather", '{"city": "Oslo"}'), LAST, "Sunshine."]

pytestmark = pytest.mark.skipif(
    not (BUNDLE.exists() and shutil.which("node")),
    reason="the stock client is not installed: with npm, `make stock-client` does it",
)


def test_over_websocket_in_node(answering: tuple[httpx.Client, FastAPI], tmp_path: Path) -> None:
    http, chat = answering
    chat.state.answers[:], chat.state.asked[:] = ANSWERS, []
    (tmp_path / "boat.pcm").write_bytes(soxr.resample(recorded("boat"), 16_000, 24_000).astype("<i2").tobytes())
    url = str(http.base_url.copy_with(scheme="ws")).rstrip("/") + "/v1/realtime?model=lark"
    files = [str(tmp_path / "boat.pcm"), str(tmp_path)]
    node = shutil.which("node")
    assert node
    done = subprocess.run([node, CLIENTS / "websocket.mjs", url, *files], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    log = json.loads((tmp_path / "log.json").read_text())
    check(log, chat)
    sound = np.frombuffer((tmp_path / "1.pcm").read_bytes(), "<i2") / np.float32(32768)
    assert ear.wer([LAST], [ear.transcribe(ear.prepare(sound, 24_000))]) <= 0.2
    typed = chat.state.asked[3]["messages"][-1]
    assert typed == {"role": "user", "content": "And tomorrow?"}


def test_over_webrtc_in_chromium(playwright: Playwright, answering: tuple[httpx.Client, FastAPI], tmp_path: Path) -> None:
    http, chat = answering
    chat.state.answers[:], chat.state.asked[:] = ANSWERS, []
    with stock_page(playwright, str(http.base_url), tmp_path / "mic.wav") as page:
        page.wait_for_function("window.stock?.connected")
        page.evaluate("recorder.start()")
        page.wait_for_function("stock.log.interruptions || stock.log.truncated.length")
        page.wait_for_function("stock.log.calls.length")
        page.evaluate("recorder.take()")
        page.wait_for_function("stock.log.types.filter((type) => type === 'output_audio_buffer.stopped').length === 1")
        page.wait_for_timeout(400)  # what the jitter buffer still holds
        heard = page.evaluate("recorder.take()")
        rate = int(page.evaluate("recorder.rate"))
        log = page.evaluate("stock.log")
        page.evaluate("stock.session.close()")
    check(log, chat)
    sound = np.frombuffer(base64.b64decode(heard), np.float32)
    assert ear.wer([LAST], [ear.transcribe(ear.prepare(sound, rate))]) <= 0.2


def check(log: dict[str, Any], chat: FastAPI) -> None:
    """What both ways have in common."""
    assert not log["errors"]
    assert not [type for type in log["types"] if type == "error"]
    messages = [item for item in log["history"] if item["type"] == "message"]
    said = [
        item["content"][0]["transcript"] for item in messages if item["role"] == "user" and "transcript" in item["content"][0]
    ]
    assert ear.wer([SAID["boat"], SAID["boat"]], said) <= 0.2, said
    cut, whole = [item["content"][0]["transcript"] for item in messages if item["role"] == "assistant"][:2]
    assert FIRST.startswith(cut)
    assert 3 <= len(cut.split()) < 60, cut  # of 250
    assert whole == LAST
    assert log["truncated"]
    assert log["calls"] == [["weather", "It rains in Oslo."]]
    _, second, third, *_ = (asked["messages"] for asked in chat.state.asked)
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[0]["content"] == "Be brief."
    assert second[2]["content"] == cut
    assert [tool["function"]["name"] for tool in chat.state.asked[1]["tools"]] == ["weather"]
    assert third[-1] == {"role": "tool", "tool_call_id": "call_1", "content": "It rains in Oslo."}


@contextmanager
def stock_page(playwright: Playwright, url: str, file: Path) -> Iterator[Page]:
    """The stock client on a page of the server's origin; its microphone hears a sentence, and again during the answer."""
    sound = np.concatenate([silence(4), voice("boat"), silence(5), voice("boat"), silence(30)])
    soundfile.write(file, sound, RATE, subtype="PCM_16")
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with chromium(playwright, *flags, f"--use-file-for-fake-audio-capture={file}%noloop") as browser:
        page = open_window(browser)
        page.set_default_timeout(PATIENCE)
        page.add_init_script(SCRIPTS[0])
        page.route("**/stock/*", serve)
        page.goto(f"{url.rstrip('/')}/stock/index.html")
        yield page


def serve(route: Route) -> None:
    """The files of the client, which the product does not have."""
    name = route.request.url.rsplit("/", 1)[1]
    file = CLIENTS / name if (CLIENTS / name).exists() else BUNDLE / name
    route.fulfill(path=file, content_type="text/html" if file.suffix == ".html" else "text/javascript")
