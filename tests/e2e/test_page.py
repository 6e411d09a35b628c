"""The page as a thing to look at and to handle."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route

from tests.e2e.desk import Desk, open_window

CALLS = "**/v1/realtime/calls"


def refuse(status: int, code: str, message: str) -> dict[str, object]:
    """The server's answer in an error's shape."""
    return {"status": status, "body": json.dumps({"error": {"code": code, "message": message}})}


TROUBLES = [
    (refuse(503, "busy", "All 80 places are taken."), "All 80 places are taken."),
    (refuse(404, "model_not_found", ""), "Choose another model"),
    (refuse(503, "engine_lost", "The speech engine is being restarted."), "being restarted"),
    (None, "The server does not answer"),
]


def refused(answer: dict[str, object] | None) -> Callable[[Route], None]:
    """Who calls gets this answer, or none."""
    return lambda route: route.fulfill(**answer) if answer else route.abort()


def test_each_trouble_is_told_and_speak_recovers(desk: Desk) -> None:
    """A person reads what to do, tries again, and in the end hears the sentence."""
    for answer, words in TROUBLES:
        desk.page.route(CALLS, refused(answer))
        desk.speak("Hello.")
        desk.await_trouble(words)
        desk.await_state("disconnected")
        desk.page.unroute(CALLS)
    desk.hear("Hello.")


def test_a_lost_connection_is_told_and_speak_reconnects(desk: Desk, server: httpx.Client) -> None:
    """The server ends the call; the page says so, and the next Speak makes a new one."""
    locations: list[str] = []
    desk.page.on("response", lambda response: locations.append(response.headers.get("location", "")))
    desk.hear("Hello.")
    call = next(filter(None, locations))
    server.delete(call)
    desk.await_state("disconnected")
    desk.await_trouble("connection was lost")
    desk.hear("Hello again.")


def test_empty_text_asks_for_text(desk: Desk) -> None:
    """And makes no call."""
    desk.speak("  ")
    assert "Type a sentence first" in desk.trouble
    assert desk.state == "idle"


def test_a_page_rendered_anew_keeps_the_call(desk: Desk) -> None:
    """Gradio may replace the element while a sentence is spoken; sound and text stay."""
    desk.speak("This sentence is long enough to go on while the page is rendered anew around it.")
    desk.await_sound()
    desk.page.evaluate("""async () => {
        const page = await import(new URL("voxrtc/js/page.js", document.baseURI));
        const old = document.querySelector(".vx").parentElement, fresh = old.cloneNode(true);
        old.replaceWith(fresh);
        page.adopt(fresh, { models: [] });
    }""")
    assert desk.state == "speaking"
    assert desk.page.get_by_label("Text").input_value().startswith("This sentence")
    desk.page.get_by_role("button", name="Stop").click()
    assert desk.state == "ready"


def test_keyboard_speaks_and_stops(desk: Desk) -> None:
    """Ctrl+Enter in the text, Escape anywhere."""
    text = desk.page.get_by_label("Text")
    text.fill("The keyboard is enough for all of this, and nobody has to reach for a mouse at all.")
    text.press("Control+Enter")
    desk.await_state("speaking")
    text.press("Escape")
    desk.await_state("ready")


def test_nothing_is_fetched_from_elsewhere(page: Page, server: httpx.Client) -> None:
    """Fonts, scripts, statistics: all from this server."""
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(httpx.URL(request.url).host))
    page.goto(str(server.base_url))
    page.wait_for_load_state("networkidle")
    assert hosts <= {server.base_url.host, ""}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone(browser: Browser, server: httpx.Client, scheme: str) -> None:
    """No sideways scrolling at 390 px; the chosen scheme is shown; nothing moves when a notice comes."""
    page = open_window(browser, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    desk = Desk(page, str(server.base_url))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    dark = page.evaluate("getComputedStyle(document.querySelector('.vx')).colorScheme") == "dark"
    assert dark == (scheme == "dark")
    where = "document.querySelector('[name=speak]').getBoundingClientRect().top + scrollY"
    before = page.evaluate(where)
    page.route(CALLS, refused(refuse(503, "busy", "All places are taken. Try again in a few seconds.")))
    desk.speak("Hello.")
    desk.await_state("disconnected")
    assert page.evaluate(where) == before
    page.close()
