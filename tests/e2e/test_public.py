"""A public host with one place, and calls of a few seconds: what visitors see of it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from tests.e2e.desk import Desk, open_window
from tests.program import running

STATE = "document.querySelector('[data-part=state]').textContent"


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    settings = {"VOXRTC_PUBLIC": "1", "VOXRTC_MAX_PEERS": "1", "VOXRTC_PUBLIC_MINUTES": "0.1"}
    with running(tmp_path_factory.mktemp("public") / "log.txt", **settings) as client:
        yield client


def test_calls_are_short_and_who_comes_later_stands_in_line(browser: Browser, public: httpx.Client) -> None:
    first, second, third = (Desk(open_window(browser), str(public.base_url)) for _ in range(3))
    first.speak("Hello.")
    first.await_sound()
    second.speak("Me too.")
    second.page.wait_for_function(f"{STATE}.startsWith('1st in line, about ')")
    assert not second.trouble
    third.speak("And me.")
    third.page.wait_for_function(f"{STATE}.startsWith('2nd in line, about ')")
    third.page.get_by_role("button", name="Stop").click()  # gives the place away
    third.await_state("idle")
    assert not third.trouble
    first.page.wait_for_function("document.querySelector('.vx-trouble').textContent.includes('ends in 3 seconds')")
    first.page.wait_for_function("document.querySelector('.vx-trouble').textContent.includes('welcome to call again')")
    first.await_state("disconnected")
    second.await_sound()  # of a call that began by itself when the place was free
    assert not second.trouble
    third.speak("And me after all.")
    third.page.wait_for_function(f"{STATE}.startsWith('1st in line, about ')")
    second.page.close()
    third.await_sound()
    for desk in (first, third):
        desk.page.close()
