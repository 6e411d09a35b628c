"""Microphones and loudspeakers: chosen, remembered, refused, unplugged. They are played by `devices.js`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.desk import Desk, open_window

PLAYED = (Path(__file__).parent / "devices.js").read_text("utf-8")
REFUSALS = [
    ("NotAllowedError", "Permission denied", "The microphone is blocked", "beside the address"),
    ("NotAllowedError", "Permission dismissed", "was closed", "choose Allow"),
    ("NotAllowedError", "Permission denied by system", "The system keeps the microphone", "privacy settings"),
    ("NotFoundError", "Requested device not found", "No microphone was found", "Plug one in"),
    ("NotReadableError", "Could not start audio source", "cannot be opened", "Another program"),
    ("OverconstrainedError", "", "The chosen microphone cannot be used", "Choose another one"),
]


@pytest.fixture
def played(page: Page, server: httpx.Client) -> Desk:
    """A page whose devices are played; the list is open."""
    page.add_init_script(PLAYED)
    desk = Desk(page, str(server.base_url))
    page.get_by_role("button", name="Devices").click()
    return desk


def choices(desk: Desk, label: str) -> list[str]:
    return desk.page.get_by_label(label).locator("option").all_inner_texts()


def chosen(desk: Desk, label: str) -> str:
    return str(desk.page.get_by_label(label).locator("option:checked").inner_text())


def asked(desk: Desk) -> list[str]:
    """The ids of the microphones that the browser was asked for since the last call."""
    return list(desk.page.evaluate("gear.asked.splice(0)"))


def listening(desk: Desk) -> None:
    desk.talk()
    desk.page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")


def test_lists_follow_what_is_plugged_in_and_a_choice_is_remembered(played: Desk) -> None:
    page = played.page
    page.wait_for_function("document.querySelectorAll('[name=microphone] option').length === 3")
    assert choices(played, "Microphone") == ["System's choice", "Desk microphone", "Headset"]
    assert choices(played, "Loudspeaker") == ["System's choice", "Speakers", "Wireless headphones"]
    page.get_by_label("Microphone").select_option("headset")
    page.get_by_label("Loudspeaker").select_option("wireless")
    played.open()  # another visit
    page.get_by_role("button", name="Devices").click()
    page.wait_for_function("document.querySelector('[name=microphone]').value === 'headset'")
    assert chosen(played, "Loudspeaker") == "Wireless headphones"
    page.wait_for_function("gear.routed.at(-1) === 'wireless'")
    page.evaluate("gear.change('headset'), gear.change('wireless')")  # pulled out
    page.wait_for_function("document.querySelector('[name=microphone]').value === ''")
    page.wait_for_function("gear.routed.at(-1) === ''")
    listening(played)
    assert asked(played) == [""]
    page.evaluate("gear.change('headset', ['audioinput', 'Headset'])")  # and back again
    page.wait_for_function("document.querySelector('[name=microphone]').value === 'headset'")


def test_another_microphone_takes_over_while_one_talks(played: Desk) -> None:
    listening(played)
    before = played.page.evaluate("voxrtc.microphone.id")
    played.page.get_by_label("Microphone").select_option("headset")
    played.page.wait_for_function("before => voxrtc.microphone && voxrtc.microphone.id !== before", arg=before)
    assert asked(played) == ["", "headset"]
    assert played.page.evaluate("voxrtc.listening")


def test_every_refusal_says_what_to_do(played: Desk) -> None:
    """And does nothing to the call or to the other button."""
    for name, message, title, advice in REFUSALS:
        played.page.evaluate("refusal => gear.refusal = refusal", [name, message])
        played.talk()
        played.await_trouble(title)
        assert advice in played.trouble
        played.page.wait_for_function("!voxrtc.listening")
    assert played.state == "idle"
    played.page.evaluate("gear.refusal = null")
    listening(played)
    assert not played.trouble


def test_a_loudspeaker_that_cannot_be_used_is_told(played: Desk) -> None:
    """Until another one is chosen."""
    played.page.evaluate("gear.broken = 'wireless'")
    played.page.wait_for_function("document.querySelectorAll('[name=speaker] option').length === 3")
    played.page.get_by_label("Loudspeaker").select_option("wireless")
    played.await_trouble("This loudspeaker cannot be used")
    played.page.get_by_label("Loudspeaker").select_option("speakers")
    played.await_calm()
    assert played.page.evaluate("gear.routed.at(-1)") == "speakers"


def test_a_refused_microphone_leaves_the_voice_alone(played: Desk) -> None:
    played.speak("This sentence is long enough to go on while the microphone is refused.")
    played.await_sound()
    played.page.evaluate("gear.refusal = ['NotAllowedError', 'Permission denied']")
    played.talk()
    played.await_trouble("The microphone is blocked")
    assert played.state == "speaking"
    played.page.get_by_role("button", name="Stop").click()
    assert played.state == "ready"


def test_an_unplugged_microphone_is_told_and_another_one_takes_its_place(played: Desk) -> None:
    """Where there is none, it is told what to do."""
    listening(played)
    unplug = "voxrtc.microphone.dispatchEvent(new Event('ended'))"
    played.page.evaluate(unplug)
    played.await_trouble("“Desk microphone” took its place")
    assert played.page.evaluate("voxrtc.listening && voxrtc.microphone !== null")
    played.page.evaluate("gear.refusal = ['NotFoundError', 'Requested device not found']")
    played.page.evaluate(unplug)
    played.await_trouble("There is no other one")
    played.page.wait_for_function("!voxrtc.listening")
    assert asked(played) == ["", "", ""]


@pytest.fixture
def insecure(browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    """As on http and another computer: without any devices."""
    page = open_window(browser)
    page.add_init_script("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })")
    yield Desk(page, str(server.base_url))
    page.close()


def test_an_insecure_address_is_told_and_the_voice_still_speaks(insecure: Desk) -> None:
    insecure.talk()
    insecure.await_trouble("No microphone on this address")
    assert "https" in insecure.trouble
    insecure.hear("Hello.")
