"""What browsers of phones ask for: sound begins in a gesture, and comes back in one when a call took it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e import ear
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_devices import PLAYED

WATCHED = """
window.inside = false;
window.begun = [];
window.played = [];
const watch = (prototype, name) => {
    const real = prototype[name];
    prototype[name] = function (...given) {
        window.begun.push([name, window.inside]);
        if (name === "play") window.played.push(this.hasAttribute("playsinline"));
        return real.apply(this, given);
    };
};
addEventListener("click", () => (window.inside = true, setTimeout(() => (window.inside = false))), true);
addEventListener("click", () => (window.inside = false));
watch(AudioContext.prototype, "resume");
watch(HTMLMediaElement.prototype, "play");
watch(navigator.mediaDevices, "getUserMedia");
"""
STRICT = """
window.tapped = false;
addEventListener("click", ({ target }) => target.name === "unlock" && (window.tapped = true), true);
const play = HTMLMediaElement.prototype.play;
HTMLMediaElement.prototype.play = async function () {
    if (window.tapped || !this.srcObject) return play.call(this);
    this.pause();
    throw new DOMException("The user must tap.", "NotAllowedError");
};
"""


@pytest.fixture
def strict(browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    """A browser that lets nothing be heard until the person taps for it."""
    page = open_window(browser)
    page.add_init_script(STRICT)
    yield Desk(page, str(server.base_url))
    page.close()


@pytest.mark.parametrize(("button", "begins"), [("speak", {"resume", "play"}), ("talk", {"resume", "play", "getUserMedia"})])
def test_all_begins_inside_the_gesture(page: Page, server: httpx.Client, button: str, begins: set[str]) -> None:
    page.add_init_script(PLAYED + WATCHED)
    desk = Desk(page, str(server.base_url))
    page.evaluate("begun.length = 0")
    page.locator(f"[name={button}]").click()
    desk.await_state("ready", "waiting", "speaking")
    assert {name for name, inside in page.evaluate("begun") if inside} == begins
    played = page.evaluate("played")
    assert played and all(played), "iOS would show a player"


def test_a_refused_sound_asks_for_a_tap_and_then_is_heard(strict: Desk) -> None:
    strict.speak("This sentence is heard as soon as somebody has found the button.")
    strict.await_trouble("The browser holds the sound back")
    strict.page.get_by_role("button", name="Tap to hear").click()
    strict.await_calm()
    strict.await_sound()


def test_after_a_phone_call_any_gesture_brings_the_sound_back(page: Page, server: httpx.Client) -> None:
    """The system suspends the sound and mutes the microphone; both are told."""
    page.add_init_script(PLAYED)
    desk = Desk(page, str(server.base_url))
    desk.talk()
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    page.evaluate("voxrtc.output.context.suspend()")
    desk.await_trouble("Something else took the sound")
    page.get_by_role("heading", name="VoxRTC").click()
    desk.await_calm()
    assert page.evaluate("voxrtc.output.context.state") == "running"
    page.evaluate("""() => {
        Object.defineProperty(voxrtc.microphone, "muted", { value: true });
        voxrtc.microphone.dispatchEvent(new Event("mute"));
    }""")
    desk.await_trouble("The microphone is muted")
    page.get_by_role("heading", name="VoxRTC").click()
    desk.await_calm()
    assert page.evaluate("voxrtc.listening && !voxrtc.microphone.muted")
    desk.hear("Hello.")


def test_a_greeting_is_not_cut_off(desk: Desk) -> None:
    """The first word of a new call, which is short."""
    said = "No dogs in the garden, please."
    assert ear.wer([said], [ear.transcribe(ear.prepare(*desk.hear(said)))]) == 0
