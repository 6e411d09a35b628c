"""The page in every state, as pictures in `build/screenshots`; those of the README in `docs/screenshots`."""

from __future__ import annotations

import io
from typing import Any

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from tests.e2e.desk import Desk, open_window
from tests.e2e.test_devices import PLAYED
from tests.program import ROOT

BUILD, DOCS = ROOT / "build" / "screenshots", ROOT / "docs" / "screenshots"
README = {"talking": "page", "phone": "phone", "dashboard": "dashboard", "crowd": "crowd"}
WIDE, PHONE = (1280, 800), (390, 844)
COLOURS = 256  # of a picture: so it is a third as large
LISTENERS = 24  # at once: on two cores it then shows how the engine plans
LEAST = 5_000  # bytes: an empty page would be less


def opened(browser: Browser, server: httpx.Client, size: tuple[int, int] = WIDE, **options: Any) -> Desk:
    page = open_window(browser, viewport={"width": size[0], "height": size[1]}, **options)
    page.add_init_script(PLAYED)
    desk = Desk(page, str(server.base_url))
    page.wait_for_function("document.querySelector('[name=model] option')")
    return desk


def shoot(what: Page | Locator, name: str, **options: Any) -> None:
    """Keep a picture of it."""
    seen = Image.open(io.BytesIO(what.screenshot(animations="disabled", **options)))
    picture = seen.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    folders = {BUILD: name, DOCS: README.get(name)}
    for path in [folder / f"{kept}.png" for folder, kept in folders.items() if kept]:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path, optimize=True)
        assert path.stat().st_size > LEAST


def converse(desk: Desk) -> None:
    """The microphone is on; one answer was interrupted, and the next is being spoken."""
    desk.talk()
    desk.page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    message = desk.page.get_by_label("Message")
    for number, said in enumerate(["What does a lighthouse do?", "Who kept it?"], start=1):
        message.fill(said)
        message.press("Enter")
        desk.page.wait_for_function(
            f"voxrtc.lines.filter(({{ who, heard }}) => who === 'voice' && heard > 24).length === {number}"
        )


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        ("empty", WIDE, "light"),
        ("empty-dark", WIDE, "dark"),
        ("empty-wide", (1680, 1050), "light"),
        ("empty-phone", PHONE, "light"),
    ],
)
def test_empty(browser: Browser, lively: httpx.Client, name: str, size: tuple[int, int], scheme: str) -> None:
    """All of the page, as one finds it."""
    page = opened(browser, lively, size, color_scheme=scheme).page
    height = page.evaluate("document.querySelector('.vx').getBoundingClientRect().bottom")
    page.set_viewport_size({"width": size[0], "height": int(height) + 90})  # pictures are drawn only where one looks
    page.wait_for_timeout(1_000)
    shoot(page, name)
    page.close()


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        ("talking", WIDE, "light"),
        ("dark", WIDE, "dark"),
        ("phone", PHONE, "light"),
        ("phone-dark", PHONE, "dark"),
    ],
)
def test_talking(browser: Browser, lively: httpx.Client, name: str, size: tuple[int, int], scheme: str) -> None:
    desk = opened(browser, lively, size, color_scheme=scheme)
    converse(desk)
    shoot(desk.page, name)
    desk.page.close()


@pytest.mark.parametrize(("name", "size"), [("loading", WIDE), ("loading-phone", PHONE)])
def test_loading(browser: Browser, lively: httpx.Client, name: str, size: tuple[int, int]) -> None:
    """Half of a model has come."""
    page = opened(browser, lively, size).page
    card = page.locator(".vx-model[data-model=pocket]")
    page.wait_for_function("document.querySelector('.vx-model[data-model=pocket]').dataset.state")  # the server has told it
    if card.get_attribute("data-state") != "loading":
        card.get_by_role("button", name="Download and load").click()
    page.wait_for_function("document.querySelector('.vx-model[data-model=pocket] progress').position > 0.3")
    card.scroll_into_view_if_needed()
    shoot(page.locator(".vx-models"), name)
    page.close()


@pytest.mark.parametrize(("name", "size"), [("queue", WIDE), ("queue-phone", PHONE)])
def test_overloaded(browser: Browser, full: httpx.Client, name: str, size: tuple[int, int]) -> None:
    """One waits in line, the next is refused."""
    first, second = opened(browser, full, size), opened(browser, full, size)
    first.speak("At last.")
    first.page.wait_for_function("document.querySelector('[data-part=state]').textContent.includes('in line')")
    first.page.evaluate("scrollTo(0, 0)")
    shoot(first.page, name)
    second.speak("Me too.")
    second.await_trouble("The queue is full")
    second.page.evaluate("scrollTo(0, 0)")
    shoot(second.page, name.replace("queue", "overloaded"))
    first.page.get_by_role("button", name="Stop").click()
    for desk in (first, second):
        desk.page.close()


@pytest.mark.parametrize(("name", "size", "scheme"), [("error", WIDE, "light"), ("error-phone", PHONE, "dark")])
def test_error(browser: Browser, lively: httpx.Client, name: str, size: tuple[int, int], scheme: str) -> None:
    """The microphone is blocked."""
    desk = opened(browser, lively, size, color_scheme=scheme)
    desk.page.evaluate("gear.refusal = ['NotAllowedError', 'Permission denied']")
    desk.talk()
    desk.await_trouble("The microphone is blocked")
    shoot(desk.page, name)
    desk.page.close()


@pytest.mark.parametrize(
    ("scheme", "suffix", "size"), [("light", "", WIDE), ("dark", "-dark", WIDE), ("light", "-phone", PHONE)]
)
def test_dashboard_and_crowd(browser: Browser, lively: httpx.Client, scheme: str, suffix: str, size: tuple[int, int]) -> None:
    """Somebody talks beside virtual listeners, each policy having planned for a while."""
    desk = opened(browser, lively, size, color_scheme=scheme)
    lively.post("/v1/voxrtc/crowd", json={"listeners": LISTENERS, "peers": 0}).raise_for_status()
    for policy in ("fifo", "two_phase", "playout"):
        lively.post("/v1/voxrtc/policy", json={"policy": policy}).raise_for_status()
        desk.page.wait_for_timeout(5_000)
    desk.hear("Good morning! The kettle is on.")
    converse(desk)
    for part in ("crowd", "dashboard"):
        section = desk.page.locator(f"[data-part={part}]")
        section.scroll_into_view_if_needed()
        desk.page.set_viewport_size({"width": size[0], "height": 1_400})
        desk.page.wait_for_timeout(6_000)
        shoot(section, f"{part}{suffix}")
    lively.post("/v1/voxrtc/crowd", json={"listeners": 0, "peers": 0}).raise_for_status()
    desk.page.close()


@pytest.mark.parametrize(("name", "size"), [("compare", WIDE), ("compare-phone", PHONE)])
def test_compare(browser: Browser, pair: httpx.Client, name: str, size: tuple[int, int]) -> None:
    page = opened(browser, pair, size).page
    page.locator("[data-part=compare-go]").click()
    page.wait_for_function("document.querySelector('[data-part=verdict]').textContent")
    shoot(page.locator("[data-part=compare]"), name)
    page.close()


def test_frames_while_talking(browser: Browser, lively: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    """60 a second, in six seconds of speech with everything on the page alive; on a machine that has nothing else to do."""
    desk = opened(browser, lively)
    converse(desk)
    desk.speak("Nobody in the village had climbed the stairs, and nobody said a word, but all left their curtains open. " * 2)
    desk.await_sound()
    times = desk.page.evaluate("""() => new Promise((done) => {
        const times = [], long = [];
        new PerformanceObserver((list) => long.push(...list.getEntries())).observe({ type: "longtask" });
        const tick = (now) => times.push(now) < 360 ? requestAnimationFrame(tick) : done([times, long.length]);
        requestAnimationFrame(tick);
    })""")
    gaps = [after - before for before, after in zip(times[0], times[0][1:], strict=False)]
    late = sum(gap > 25 for gap in gaps)
    with capsys.disabled():
        print(f"\n{len(gaps)} frames in {sum(gaps) / 1000:.1f} s, {late} late, {times[1]} tasks of more than 50 ms")
    assert late <= len(gaps) * 0.05
    desk.page.close()
