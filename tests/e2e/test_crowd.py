"""Virtual listeners as a person has them: a slider, glasses that fill and drain, policies to choose from."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.conftest import running
from tests.e2e.desk import Desk, open_window

CROWD = "/v1/voxrtc/crowd"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(tmp_path_factory.mktemp("hall") / "log.txt", VOXRTC_CROWD="8") as client:
        yield client


@pytest.fixture
def page(browser: Browser, hall: httpx.Client) -> Iterator[Page]:
    page = open_window(browser)
    yield page
    page.context.close()
    hall.post(CROWD, json={"listeners": 0})


def slide(page: Page, name: str, value: int) -> None:
    page.locator(f"[name={name}]").fill(str(value))


def await_words(page: Page, part: str, words: str) -> None:
    page.wait_for_function(
        "([part, words]) => document.querySelector(`[data-part=${part}]`).textContent.includes(words)", arg=[part, words]
    )


def await_server(page: Page, holds: str) -> dict[str, Any]:
    """What the server tells of its crowd, once that `holds` (JavaScript, of `crowd`)."""
    ask = f"async () => {{ const crowd = await (await fetch('{CROWD}')).json(); return {holds} && crowd; }}"
    return dict(page.wait_for_function(ask, polling=200).json_value())


def children(of: int) -> dict[int, str]:
    pids = map(int, Path(f"/proc/{of}/task/{of}/children").read_text().split())
    return {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in pids}


def server_pid(hall: httpx.Client) -> int:
    """Of our children, the one that listens there."""
    port = f"PORT={hall.base_url.port}".encode()
    return next(pid for pid in children(os.getpid()) if port in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def test_a_crowd_comes_is_planned_for_and_goes(page: Page, browser: Browser, hall: httpx.Client) -> None:
    desk, witness = Desk(page, str(hall.base_url)), open_window(browser)
    Desk(witness, str(hall.base_url))
    slide(page, "crowd-size", 8)
    for seen in (page, witness):
        await_words(seen, "crowd-count", "8")
        await_words(seen, "crowd-now", "hearing sound")
        assert seen.locator("[name=crowd-size]").input_value() == "8"
    await_server(page, "crowd.figures.playout.started >= 8")
    await_words(page, "facts-playout", "with 8 listeners")
    page.locator("[name=crowd-policy][value=fifo]").check(force=True)
    witness.wait_for_function("document.querySelector('[name=crowd-policy][value=fifo]').checked")
    await_server(page, "crowd.policy === 'fifo' && crowd.figures.fifo.started > 0")
    stats = hall.get("/v1/voxrtc/stats").json()["engines"]["lark"]
    assert stats["policy"] == "fifo" and stats["failed"] == 0
    desk.speak("A person speaks in the crowd.")
    desk.await_sound()
    slide(page, "crowd-size", 0)
    for seen in (page, witness):
        await_words(seen, "crowd-now", "Nobody is there")
    streams = "(await (await fetch('/v1/voxrtc/stats')).json()).engines.lark.streams"
    page.wait_for_function(f"async () => {streams}.every(({{ background }}) => !background)", polling=200)
    page.locator("[name=crowd-policy][value=playout]").check(force=True)
    await_server(page, "crowd.policy === 'playout'")
    witness.context.close()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_crowd_outlives_its_engine_and_leaves_nothing(page: Page, hall: httpx.Client) -> None:
    Desk(page, str(hall.base_url))
    slide(page, "crowd-size", 3)
    slide(page, "crowd-peers", 2)
    before = await_server(page, "crowd.calls.filter(({ phase }) => phase === 'playing').length === 2")
    server = server_pid(hall)
    engine = next(pid for pid, command in children(server).items() if "voxrtc.engine.process" in command)
    os.kill(engine, signal.SIGKILL)
    await_server(page, "crowd.voices.every(([, phase]) => phase === 'away' || phase === 'resting')")
    sounds = "['playing', 'resting', 'dry'].includes(phase)"
    again = await_server(page, f"crowd.voices.every(([, phase]) => {sounds})")
    assert [voice[0] for voice in again["voices"]] == [voice[0] for voice in before["voices"]], "the same, in their places"
    await_server(page, "crowd.calls.some(({ phase }) => phase === 'playing')")
    slide(page, "crowd-peers", 0)
    await_server(page, "!crowd.calls.length")
    gone = "async () => (await (await fetch('/v1/voxrtc/stats')).json()).media.peers === 0"
    page.wait_for_function(gone, polling=200)
    assert not [command for command in children(server).values() if "voxrtc.crowd" in command]
