"""Virtual listeners as a person has them: a slider, glasses that fill and drain, policies to choose from."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.desk import Desk, open_window
from tests.program import Running, children, module
from tests.waiting import eventually
from voxrtc.api.stats import mark

Told = dict[str, Any]
CROWD, STATS = "/v1/voxrtc/crowd", "/v1/voxrtc/stats"


@pytest.fixture
def page(browser: Browser, server: httpx.Client) -> Iterator[Page]:
    page = open_window(browser)
    yield page
    page.close()
    server.post(CROWD, json={"listeners": 0})


def slide(page: Page, name: str, value: int) -> None:
    page.locator(f"[name={name}]").fill(str(value))


def await_words(page: Page, part: str, words: str) -> None:
    page.wait_for_function(
        "([part, words]) => document.querySelector(`[data-part=${part}]`).textContent.includes(words)", arg=[part, words]
    )


def await_server(server: httpx.Client, holds: Callable[[Told], object], path: str = CROWD) -> Told:
    """What the server tells, once that `holds`."""
    return eventually(lambda: told if holds(told := server.get(path).json()) else None)


def phases(crowd: Told) -> set[str]:
    return {voice[1] for voice in crowd["voices"]}


def called(crowd: Told) -> list[str]:
    return [call["phase"] for call in crowd["calls"]]


def test_a_crowd_comes_is_planned_for_and_goes(page: Page, browser: Browser, server: httpx.Client) -> None:
    desk, witness = Desk(page, str(server.base_url)), open_window(browser)
    Desk(witness, str(server.base_url))
    slide(page, "crowd-size", 8)
    for seen in (page, witness):
        await_words(seen, "crowd-count", "8")
        await_words(seen, "crowd-now", "hearing sound")
        assert seen.locator("[name=crowd-size]").input_value() == "8"
    await_server(server, lambda crowd: crowd["figures"]["playout"]["started"] >= 8)
    await_words(page, "facts-playout", "8 listeners")
    page.locator("[name=crowd-policy][value=fifo]").check(force=True)
    witness.wait_for_function("document.querySelector('[name=crowd-policy][value=fifo]').checked")
    await_server(server, lambda crowd: crowd["policy"] == "fifo" and crowd["figures"]["fifo"]["started"])
    stats = server.get("/v1/voxrtc/stats").json()["engines"]["lark"]
    assert stats["policy"] == "fifo" and stats["failed"] == 0
    assert page.evaluate("import('/voxrtc/js/mark.js').then(({ mark }) => mark('resp_0f3a'))") == mark("resp_0f3a")
    desk.speak("A person speaks in the crowd, and is seen there, as long as the engine has something to do for them.")
    page.wait_for_function("document.querySelector('[data-part=crowd-bars]').dataset.you === 'true'")
    desk.await_sound()
    slide(page, "crowd-size", 0)
    for seen in (page, witness):
        await_words(seen, "crowd-now", "Nobody is there")
    await_server(server, lambda stats: not any(s["background"] for s in stats["engines"]["lark"]["streams"]), STATS)
    page.locator("[name=crowd-policy][value=playout]").check(force=True)
    await_server(server, lambda crowd: crowd["policy"] == "playout")
    witness.close()


@pytest.mark.chaos
@pytest.mark.skipif(not Path("/proc/self/task").exists() or "VOXRTC_E2E_URL" in os.environ, reason="kills a process of ours")
def test_a_crowd_outlives_its_engine_and_leaves_nothing(page: Page, server: Running) -> None:
    Desk(page, str(server.base_url))
    slide(page, "crowd-size", 3)
    slide(page, "crowd-peers", 2)
    before = await_server(server, lambda crowd: called(crowd) == ["playing"] * 2)
    engine = next(pid for pid in children(server.pid) if module(pid) == "voxrtc.engine.process")
    os.kill(engine, signal.SIGKILL)
    await_server(server, lambda crowd: phases(crowd) <= {"away", "resting"})
    again = await_server(server, lambda crowd: phases(crowd) <= {"playing", "resting", "dry"})
    assert [voice[0] for voice in again["voices"]] == [voice[0] for voice in before["voices"]], "the same, in their places"
    await_server(server, lambda crowd: "playing" in called(crowd))
    slide(page, "crowd-peers", 0)
    await_server(server, lambda crowd: not crowd["calls"])
    await_server(server, lambda stats: stats["media"]["peers"] == 0, STATS)
    eventually(lambda: "voxrtc.crowd.process" not in map(module, children(server.pid)))  # its peers hang up first
