"""The dashboard in a real browser: where a turn's time went, by two clocks; what all may see; what can be saved."""

from __future__ import annotations

import base64
import csv
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Page

from tests.e2e.desk import Desk, open_window
from tests.e2e.test_turns import MOUTH
from tests.speech import recorded

LIVE = "/v1/voxrtc/live"
TEXT = "The river runs past the mill, under the bridge, and on through the quiet fields to the sea."
# And "words", where they were not in hand when the turn was over
SPOKEN = ["microphone", "silence", "queue", "prompt", "chunk", "track", "network", "browser", "onset"]


def turns(page: Page, count: int) -> list[dict[str, Any]]:
    """The turns, the newest first, once there are so many."""
    page.wait_for_function(f"voxrtc.turns.length >= {count}")
    return list(page.evaluate("voxrtc.turns"))


@pytest.mark.sound
def test_a_spoken_turn_is_shown_from_microphone_to_ear(page: Page, answering: tuple[httpx.Client, FastAPI]) -> None:
    """And what the server and both clocks say comes to what a recorder hears in the page."""
    server, chat = answering
    chat.state.answers[:], chat.state.asked[:] = ["Of course. What would you like to talk about?"], []
    desk = Desk(page, str(server.base_url))
    page.evaluate(MOUTH)
    page.evaluate("mouth.open()")
    desk.talk()
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready' && voxrtc.clock.offset")
    page.evaluate("recorder.listen()")
    page.evaluate("pcm => mouth.say(pcm)", base64.b64encode(recorded("boat").tobytes()).decode())
    (turn,) = turns(page, 1)
    within = page.evaluate("recorder.answeredWithin()")
    journey = turn["journey"]
    stages = {stage["name"]: stage["ms"] for stage in journey["stages"]}
    print({name: round(ms) for name, ms in stages.items()}, f"total {journey['total']:.0f}, recorded {within:.0f} ms")
    assert journey["spoken"] and turn["model"] == "lark"
    assert [name for name in stages if name in SPOKEN] == SPOKEN
    assert journey["total"] == pytest.approx(within, abs=250)  # the recorder goes by level, the server by its voice detector
    assert sum(stages.values()) - stages.get("output", 0) == pytest.approx(journey["total"], abs=20)
    summary = page.locator(".vx-turn summary")
    summary.press("Enter")
    shown = page.locator(".vx-turn").inner_text()
    assert "Turn over" in shown and "First token" in shown and "Jitter buffer" in shown
    assert ("Transcript" in shown) == (stages.get("words", 0) >= 1), "where it took no time there is nothing to show"


@pytest.mark.sound
def test_heard_time_agrees_with_the_servers_and_can_be_saved(desk: Desk) -> None:
    """Told by the page's own clock, and by the server's and what lies between the two."""
    desk.hear("Hello.")  # connects
    desk.hear("Hello again.")
    desk.page.wait_for_function("voxrtc.ticks.length > 4 && voxrtc.turns[0]?.underruns !== null")
    second, _ = turns(desk.page, 2)
    journey = second["journey"]
    connect = journey["stages"][0]["ms"]
    print({name: round(journey[name]) for name in ("total", "server", "after", "within")})
    assert not journey["spoken"]
    assert journey["after"] > -journey["within"]
    assert journey["total"] == pytest.approx(connect + journey["server"] + journey["after"], abs=100)  # the request's own way
    check(saved(desk.page), second)


def saved(page: Page) -> dict[str, str]:
    """What each button has the browser save."""
    files = {}
    for name in ("Turns, CSV", "Ticks, CSV", "All, JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        files[name] = download.value.path().read_text("utf-8")
    return files


def check(files: dict[str, str], turn: dict[str, Any]) -> None:
    """That they have what is shown, and nothing that was said."""
    row, _ = csv.DictReader(files["Turns, CSV"].splitlines())
    assert (row["kind"], row["model"], row["underruns"]) == ("typed", "lark", str(turn["underruns"]))
    assert float(row["total_ms"]) == pytest.approx(turn["journey"]["total"], abs=0.001)
    assert float(row["chunk_ms"]) > 1
    ticks = list(csv.DictReader(files["Ticks, CSV"].splitlines()))
    assert len(ticks) > 4 and {tick["model"] for tick in ticks} == {"lark"}
    assert float(ticks[-1]["ttfa_p50_ms"]) > 1
    whole = json.loads(files["All, JSON"])
    assert whole["turns"][0]["response"] == turn["response"] and len(whole["ticks"]) >= len(ticks)
    assert "Hello" not in "".join(files.values())


def test_no_words_and_no_names_go_to_others(desk: Desk, server: httpx.Client) -> None:
    """Who looks on sees how a stream does, and nothing of whose it is; who speaks knows their own."""
    desk.speak(TEXT * 2)
    desk.await_sound()
    with server.stream("GET", LIVE) as response:
        lines = response.iter_lines()
        seen = next(line for line in lines if line.startswith("data:") and '"playing":["' in line)
    assert "resp_" not in seen and "river" not in seen and "session" not in seen
    desk.page.wait_for_function("voxrtc.ticks.some(({ models }) => models.lark?.slack.some(({ own }) => own))")
    desk.page.get_by_role("button", name="Stop", exact=True).click()


def test_the_last_hours_ask_for_nothing_while_they_are_closed(page: Page, server: httpx.Client) -> None:
    """And show Gradio's plots, from this server alone, once they are opened."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(str(server.base_url))
    page.wait_for_function("window.voxrtc?.ticks.length > 4")  # a second and more
    assert not [url for url in asked if "/queue/" in url]
    with page.expect_request(lambda request: "/queue/join" in request.url):
        page.get_by_text("The last hours").click()
    with page.expect_request(lambda request: "/queue/join" in request.url):
        page.get_by_role("button", name="Refresh").click()
    assert {httpx.URL(url).host for url in asked} <= {server.base_url.host, ""}


def test_the_dashboard_fits_a_phone(browser: Any, server: httpx.Client) -> None:
    """Charts as wide as the card, and no sideways scrolling."""
    page = open_window(browser, viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    desk = Desk(page, str(server.base_url))
    page.wait_for_function("voxrtc.ticks.length > 1")
    page.locator("[data-chart=slack]").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('[data-chart=slack] canvas').width > 300")
    desk.page.locator(".vx-numbers summary").click()
    page.get_by_role("rowheader", name="lark").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
