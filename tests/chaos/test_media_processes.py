"""One of two media processes is killed under load: its calls are over and say so, and nobody else hears of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.census import samples
from tests.e2e.conftest import chromium
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_fallback import BLOCKED
from tests.program import Running, children, module, running
from tests.rtc.browser import Browser
from tests.rtc.sounds import lasts
from tests.waiting import eventually, until

CALLS = "/v1/realtime/calls"
LONG = "This is a long sentence, which goes on for a while, so that something may happen before it has come to its end. " * 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("media") / "log", VOXRTC_MEDIA_PROCESSES="2") as server:
        yield server


def processes(server: Running) -> dict[str, int]:
    """The media processes that there are, by name."""
    found = [pid for pid in children(server.pid) if module(pid) == "voxrtc.chat.media"]
    words = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in found}
    return {each[each.index("--name") + 1]: pid for pid, each in words.items()}


def peers(server: Running) -> dict[str, int]:
    """How many each process has, by its name, as operators see it."""
    seen = samples(server.get("/metrics").text)
    return {name.split('"')[1]: round(value) for name, value in seen.items() if name.startswith("voxrtc_process_peers{")}


async def called(client: httpx.AsyncClient) -> tuple[Browser, str]:
    """A call that speaks for a while, and its place."""
    browser = Browser()
    answer = await client.post(CALLS, json={"sdp": await browser.offer()})
    assert answer.status_code == 201, answer.text
    await browser.accept(answer.text)
    browser.say(LONG)
    await browser.event("output_audio_buffer.started")
    return browser, answer.headers["location"]


async def told(url: str) -> str:
    """The error that a client of a WebSocket is told last."""
    last = ""
    async with connect(url) as client:
        try:
            while True:
                last = str(await client.recv())
        except ConnectionClosed:
            return last


@pytest.mark.anyio
async def test_the_others_sound_goes_on(server: Running) -> None:
    url = str(server.base_url)
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        calls = [await called(client) for _ in range(4)]
        waiting = [asyncio.create_task(told(f"{url.replace('http', 'ws')}/v1/realtime")) for _ in range(2)]
        await until(lambda: peers(server) == {"media": 3, "media-2": 3})
        before = processes(server)
        os.kill(before["media-2"], signal.SIGKILL)

        (gone,) = (await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))[0]
        assert "media_lost" in gone.result()
        await until(lambda: peers(server) == {"media": 3, "media-2": 0})
        after = processes(server)
        assert after["media"] == before["media"] and after["media-2"] != before["media-2"]
        assert 'voxrtc_process_restarts_total{process="media-2"} 1.0' in server.get("/metrics").text

        deleted = {browser: (await client.delete(place)).status_code for browser, place in calls[1::2]}
        assert list(deleted.values()) == [404, 404], "they are over"
        for browser, _ in calls[::2]:
            await until(lambda browser=browser: any(event["type"] == "output_audio_buffer.stopped" for event in browser.events))
            (done,) = [event for event in browser.events if event["type"] == "response.done"]
            assert done["response"]["status"] == "completed" and lasts(browser.sound) > 10
        spoke = server.get("/v1/voxrtc/stats").json()["media"]
        assert spoke["underruns"] == 0

        new = [await called(client) for _ in range(2)]
        await until(lambda: peers(server) == {"media": 3, "media-2": 2})
        for _, place in [*calls[::2], *new]:
            assert (await client.delete(place)).status_code == 204
        for browser, _ in [*calls, *new]:
            await browser.close()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def test_pages_of_a_browser_on_both(server: Running) -> None:
    """A line of one breaks, and is taken up where it was; then its process is killed, and the other page goes on."""
    both = {"media": 1, "media-2": 1}
    with sync_playwright() as playwright, chromium(playwright) as browser:
        here, there = [Desk(page(browser), str(server.base_url)) for _ in range(2)]
        for desk in (here, there):
            desk.speak(LONG)
            desk.await_sound()
        eventually(lambda: peers(server) == both)
        there.page.evaluate("udp.block()")
        there.await_trouble("The connection broke")
        there.await_calm()
        assert there.page.evaluate("voxrtc.way") == "tunnel"
        eventually(lambda: peers(server) == both)

        os.kill(processes(server)["media-2"], signal.SIGKILL)
        there.await_trouble("The connection was lost")
        here.await_state("ready")
        assert not here.trouble
        assert here.page.evaluate("voxrtc.lines.findLast(({ who }) => who === 'voice').state") == "whole"
        assert server.get("/v1/voxrtc/stats").json()["media"]["underruns"] == 0
        there.hear("Here I am again.")
        eventually(lambda: peers(server) == both)


def page(browser: Chromium) -> Page:
    """A window whose UDP can be blocked."""
    page = open_window(browser)
    page.add_init_script(BLOCKED)
    return page
