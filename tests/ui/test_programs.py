"""`speak` and `models` as programs call them: by Gradio's own client, and as tools of an MCP host."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from gradio import processing_utils
from gradio_client import Client
from gradio_client.exceptions import AppError, AuthenticationError

from tests.fake_engine import TONE_MODEL, ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from tests.waiting import PATIENCE, eventually, until
from voxrtc.api import login
from voxrtc.api.access import Access
from voxrtc.api.app import build_app
from voxrtc.api.hosting import Hosting
from voxrtc.api.whole import whole
from voxrtc.messages.engine import Cancel, Generate
from voxrtc.ui import programs
from voxrtc.ui.markup import login_form
from voxrtc.ui.page import mount_page

LONG = " ".join(["word"] * 500)


class Served:
    """The page over an engine that speaks ten times as fast as a person: its address, and what the engine was asked."""

    def __init__(self, url: str, tone: ToneTransport) -> None:
        self.url, self.tone = url, tone

    def asked(self, kind: type) -> list[Any]:
        return [request for request in self.tone.requests if isinstance(request, kind)]


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server's own folder for what was said, as `web` has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        yield


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    tone, app = ToneTransport(speed=10.0), FastAPI()
    engines = tones(tone)

    async def say(text: str, model: str, voice: str, address: str) -> tuple[int, bytes]:
        assert address == "127.0.0.1"
        return await whole(engines, text, model, voice)

    mount_page(app, [TONE_MODEL], add=partial(programs.offer, say=say, ready=engines.models))
    with serving(app, lifespan="on") as (host, port):
        yield Served(f"http://{host}:{port}/", tone)


@pytest.fixture(scope="module")
def client(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(served.url, verbose=False, download_files=tmp_path_factory.mktemp("files"))


def seconds(file: str) -> float:
    with wave.open(file) as sound:
        assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (1, 2, 24_000)
        return sound.getnframes() / 24_000


def test_gradio_s_client_gets_a_sound_file(client: Client) -> None:
    assert seconds(client.predict("Three short words", api_name="/speak")) == pytest.approx(0.3)
    assert seconds(client.predict("Two words", "tone", "default", api_name="/speak")) == pytest.approx(0.2)


def test_it_learns_what_models_there_are(client: Client) -> None:
    (model,) = client.predict(api_name="/models")
    assert model == {field: getattr(TONE_MODEL, field) for field in programs.TOLD}


def test_both_are_documented(client: Client) -> None:
    told = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(told) == {"/speak", "/models"}
    assert [parameter["parameter_name"] for parameter in told["/speak"]["parameters"]] == ["text", "model", "voice"]
    assert "WAV" in told["/speak"]["description"]
    assert told["/speak"]["returns"][0]["python_type"]["type"] == "filepath"


def test_where_there_are_keys_programs_log_in_or_show_one(tmp_path: Path) -> None:
    engines, access = tones(), Access(["key-of-a-program"], ("ann", "open sesame"))
    app = build_app(engines, EchoMedia(), hosting=Hosting(access=access))  # type: ignore[arg-type]
    app.include_router(login.router(access, *login_form()))
    say = lambda text, model, voice, address: whole(engines, text, model, voice)  # noqa: E731
    mount_page(app, [TONE_MODEL], add=partial(programs.offer, say=say, ready=engines.models))
    with serving(app, lifespan="on") as (host, port):
        url = f"http://{host}:{port}/"
        with pytest.raises(ValueError):
            Client(url, verbose=False)
        with pytest.raises(AuthenticationError):
            Client(url, auth=("ann", "wrong"), verbose=False)
        ways: list[dict[str, Any]] = [
            {"auth": ("ann", "open sesame")},
            {"headers": {"Authorization": "Bearer key-of-a-program"}},
        ]
        for way in ways:
            program = Client(url, verbose=False, download_files=tmp_path, **way)
            assert seconds(program.predict("Two words", api_name="/speak")) == pytest.approx(0.2)
        assert httpx.post(f"{url}gradio_api/mcp/", json={}).status_code == 401
        page = httpx.get(url, headers={"Authorization": "Bearer key-of-a-program"})
        assert "gradio" in page.text and "frame-ancestors 'self'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (("  ",), "no text"),
        (("x" * 10_001,), "10000"),
        (("fail",), "This text fails"),
        (("Hello", "parrot"), "parrot"),
    ],
)
def test_what_is_wrong_is_told(client: Client, wish: tuple[str, ...], told: str) -> None:
    with pytest.raises(AppError, match=told):
        client.predict(*wish, api_name="/speak")


def test_a_job_that_is_cancelled_is_spoken_no_further(client: Client, served: Served) -> None:
    before = len(served.asked(Cancel))
    job = client.submit(LONG, api_name="/speak")
    eventually(lambda: served.asked(Generate)[-1].text == LONG)
    job.cancel()
    eventually(lambda: len(served.asked(Cancel)) > before)


def test_callers_do_not_wait_for_each_other(client: Client, served: Served) -> None:
    jobs = [client.submit(f"{LONG} {number}", api_name="/speak") for number in range(3)]
    eventually(lambda: sum(not task.done() for task in list(served.tone.tasks.values())) == len(jobs))
    for job in jobs:
        job.cancel()


def test_a_client_that_dies_is_noticed(served: Served) -> None:
    before, text = len(served.asked(Cancel)), f"{LONG} dies"
    code = f"""
from gradio_client import Client
job = Client({served.url!r}, verbose=False).submit({text!r}, api_name="/speak")
while not job.status().progress_data:
    pass
print("hears of it", flush=True)
job.result()
"""
    # Killed between its asking and its listening it could not be missed: nobody has listened yet
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout and process.stdout.readline() == b"hears of it\n"
        assert served.asked(Generate)[-1].text == text
        process.kill()
    eventually(lambda: len(served.asked(Cancel)) > before)


def test_so_is_a_plain_request_that_is_given_up(served: Served) -> None:
    before = len(served.asked(Cancel))
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{served.url}gradio_api/run/speak", json={"data": [LONG, "", "default"]}, timeout=0.5)
    eventually(lambda: len(served.asked(Cancel)) > before)


def test_nothing_can_be_uploaded(served: Served) -> None:
    answer = httpx.post(f"{served.url}gradio_api/upload", files={"files": b"x" * 1000})
    assert answer.status_code == 403


def test_no_file_is_fetched_from_where_a_text_says(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio would download what an address names, for any input."""
    fetched: list[str] = []

    async def fetch(url: str, cache_dir: str) -> str:
        fetched.append(url)
        return cache_dir

    monkeypatch.setattr(processing_utils, "async_ssrf_protected_download", fetch)
    file = {"path": "http://example.com/large", "meta": {"_type": "gradio.FileData"}}
    for data in ([file, "", "default"], ["Hello", file, "default"], ["Hello", "", [{"a": file}]]):
        answer = httpx.post(f"{served.url}gradio_api/run/speak", json={"data": data})
        assert answer.status_code == 500 and "no text" in answer.json()["error"]
    assert fetched == []


async def _as_host(served: Served, ask: Callable[[Any], Any]) -> Any:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with (
        asyncio.timeout(PATIENCE),
        streamablehttp_client(f"{served.url}gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        return await ask(session)


def test_an_mcp_host_has_them_as_tools(served: Served) -> None:
    pytest.importorskip("mcp")

    async def ask(session: Any) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {"speak", "models"}
        assert tools["speak"].inputSchema["required"] == ["text"]
        assert "What to say" in tools["speak"].inputSchema["properties"]["text"]["description"]
        said = await session.call_tool("speak", {"text": "Three short words"})
        sound = httpx.get(said.content[0].text)
        assert sound.content[:4] == b"RIFF"
        assert len(sound.content) == 44 + 0.3 * 48_000
        assert "tone" in (await session.call_tool("models", {})).content[0].text
        wrong = await session.call_tool("speak", {"text": " "})
        assert wrong.isError
        assert "no text" in json.dumps(wrong.content[0].text)

    asyncio.run(_as_host(served, ask))


def test_an_mcp_host_that_leaves_is_noticed(served: Served) -> None:
    pytest.importorskip("mcp")
    before = len(served.asked(Cancel))

    async def leave(session: Any) -> None:
        call = asyncio.create_task(session.call_tool("speak", {"text": LONG}))
        await until(lambda: served.asked(Generate)[-1].text == LONG)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call

    asyncio.run(_as_host(served, leave))
    eventually(lambda: len(served.asked(Cancel)) > before)
