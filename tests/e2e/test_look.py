"""The page for every hand, eye and ear: nothing moves under the finger, all has a name, the keyboard gets everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.desk import Desk, open_window
from tests.e2e.test_devices import PLAYED

LOOK = (Path(__file__).parent / "look.js").read_text("utf-8")
FINGER = 44  # css px: the least that a finger meets
SETTLED = "document.querySelector('[data-part=replies]').textContent && document.querySelector('[name=model] option')"
NAMED = {"button", "link", "combobox", "textbox", "radio", "checkbox", "slider", "region", "heading", "progressbar", "image"}
HANDLED = NAMED | {"list", "option", "DisclosureTriangle", "RootWebArea"}  # the transcript's list, too
HALO = """[0, 1].map((level) => {
    const talk = document.querySelector("[name=talk]");
    talk.dataset.on = "true";
    talk.style.setProperty("--level", level);
    return getComputedStyle(talk).boxShadow;
})"""
REMADE = """async () => {
    const page = await import(new URL("voxrtc/js/page.js", document.baseURI));
    const old = document.querySelector(".vx").parentElement, fresh = old.cloneNode(true);
    old.replaceWith(fresh);
    page.adopt(fresh, { models: [] });
    fresh.innerHTML = fresh.innerHTML; // as Gradio does it when the value has changed
    page.refresh({ models: [] });
}"""


def opened(browser: Browser, server: httpx.Client, **options: Any) -> Page:
    """The page, with all that it fetches when it opens."""
    page = open_window(browser, **options)
    page.add_init_script(LOOK)
    Desk(page, str(server.base_url))
    page.wait_for_function(SETTLED)
    return page


@pytest.fixture(scope="module")
def wide(browser: Browser, server: httpx.Client) -> Iterator[Page]:
    page = opened(browser, server, viewport={"width": 1280, "height": 800})
    yield page
    page.close()


@pytest.fixture(scope="module")
def phone(browser: Browser, server: httpx.Client) -> Iterator[Page]:
    page = opened(browser, server, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    yield page
    page.close()


@pytest.mark.parametrize("window", ["wide", "phone"])
def test_nothing_moves_while_the_page_loads(window: str, request: pytest.FixtureRequest) -> None:
    """Less than a hundredth of what browsers' makers call good."""
    shifts = request.getfixturevalue(window).evaluate("look.shifts")
    assert sum(shift["value"] for shift in shifts) < 0.001, shifts


def test_a_finger_meets_all_there_is(phone: Page) -> None:
    phone.get_by_role("button", name="Devices").tap()
    assert phone.evaluate("look.handled().length") > 10
    assert phone.evaluate(f"look.small({FINGER})") == []
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.get_by_role("button", name="Devices").tap()


def test_a_phone_shows_why_nothing_is_heard(phone: Page) -> None:
    """Speak is far below the notice."""
    phone.get_by_label("Text").fill(" ")
    phone.locator("[name=speak]").tap()
    phone.wait_for_function("document.querySelector('.vx-trouble').dataset.shown === 'true'")
    phone.wait_for_function("document.querySelector('.vx-trouble').getBoundingClientRect().top >= 0")


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(wide: Page) -> None:
    wide.get_by_role("button", name="Devices").click()
    expected = wide.evaluate("look.names()")
    assert len(expected) > 10
    wide.evaluate("document.activeElement.blur(), getSelection().removeAllRanges(), scrollTo(0, 0)")
    reached: list[str] = []
    for _ in range(len(expected) + 5):  # between the last and the first the focus is nowhere for a while
        wide.keyboard.press("Tab")
        where = wide.evaluate("look.focused()")
        assert where is None or where["ringed"], f"nobody sees that {where['name']} has the focus"
        reached += [where["name"]] if where and len(reached) < len(expected) else []
    start = reached.index(expected[0])  # the browser went on from where the last click was
    assert reached[start:] + reached[:start] == expected
    wide.get_by_role("button", name="Devices").click()


def nodes(page: Page) -> list[tuple[str, str, dict[str, Any]]]:
    """Role, name and properties of all that the browser shows to a screen reader."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in tree if not node["ignored"]]
    properties = [{each["name"]: each["value"].get("value") for each in node.get("properties", [])} for node in shown]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""), more)
        for node, more in zip(shown, properties, strict=True)
    ]


def test_all_has_a_role_and_a_name(wide: Page) -> None:
    """As Chromium computes them: each thing to handle and each part of the page, headings without gaps, one `main`."""
    shown = nodes(wide)
    roles = [role for role, _, _ in shown]
    assert roles.count("main") == 1
    assert [role for role, name, _ in shown if role in NAMED and not name.strip()] == []
    assert {role for role, _, more in shown if more.get("focusable")} <= HANDLED, "what one can handle says what it is"
    levels = wide.evaluate("look.headings()")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert len({name for role, name, _ in shown if role == "region"}) == roles.count("region") >= 4
    assert wide.evaluate("look.ids()") == []
    assert wide.evaluate("document.documentElement.lang") == "en"


def test_only_news_is_read_out(wide: Page) -> None:
    """What goes on all the time (the state of a turn, figures) is in no live region."""
    live = "[...document.querySelectorAll('.vx :is([aria-live], [role=status], [role=log], output)')]"
    parts = wide.evaluate(f"{live}.map(element => element.dataset.part ?? element.closest('.vx-loading')?.className)")
    assert parts.count("news") == 1
    assert set(parts) <= {"news", "progress", "vx-loading", "verdict", "crowd-note", "booth-news", "booth-notes"}


def test_who_wants_no_motion_gets_none(wide: Page) -> None:
    moving = "document.getAnimations().filter(({ playState }) => playState === 'running').length"
    waiting = f"(document.querySelector('.vx').dataset.state = 'waiting', {moving})"
    assert wide.evaluate(waiting) > 0
    assert len(set(wide.evaluate(HALO))) == 2
    wide.emulate_media(reduced_motion="reduce")
    assert wide.evaluate(waiting) == 0
    assert len(set(wide.evaluate(HALO))) == 1, "the microphone's level is motion, too"
    wide.emulate_media(reduced_motion="no-preference")
    wide.evaluate("document.querySelector('.vx').dataset.state = voxrtc.state")
    wide.evaluate("document.querySelector('[name=talk]').dataset.on = 'false'")


def test_gradio_may_make_the_page_anew_while_both_speak(page: Page, server: httpx.Client) -> None:
    """The same call, the same microphone, and the sound goes on; what was said and what stood open is shown again."""
    page.add_init_script(PLAYED)
    desk = Desk(page, str(server.base_url))
    calls: list[str] = []
    page.on("request", lambda request: calls.append(request.url) if request.url.endswith("/realtime/calls") else None)
    desk.talk()
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    page.get_by_role("button", name="Devices").click()
    desk.speak("This sentence is long enough to go on while the page is made anew around it, and it is heard to its end.")
    desk.await_sound()
    page.evaluate("window.before = [voxrtc.microphone, voxrtc.output]")
    page.evaluate(REMADE)
    assert desk.state == "speaking"
    assert page.evaluate("before[0] === voxrtc.microphone && before[1] === voxrtc.output && voxrtc.listening")
    assert page.locator("[name=talk]").get_attribute("data-on") == "true"
    assert page.locator(".vx-line").inner_text().startswith("This sentence")
    assert page.get_by_label("Loudspeaker").is_visible()
    desk.await_state("ready")
    page.wait_for_function("voxrtc.lines.at(-1).state === 'whole'")
    assert len(calls) == 1
