"""A full house: one place, one more to wait in, and what the page shows of it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from tests.e2e.desk import Desk, open_window
from tests.program import running

LONG = " ".join(["The river runs past the mill, under the bridge, and on through the quiet fields to the sea."] * 40)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server with room for one who speaks and one who waits."""
    with running(tmp_path_factory.mktemp("small") / "log.txt", VOXRTC_MAX_STREAMS="1", VOXRTC_MAX_WAITING="1") as client:
        yield client


def test_a_person_sees_the_place_in_the_queue_and_a_refusal(browser: Browser, small: httpx.Client) -> None:
    pages = [open_window(browser) for _ in range(2)]
    first, second = (Desk(page, str(small.base_url)) for page in pages)
    with small.stream("POST", "/v1/audio/speech", json={"input": LONG, "response_format": "pcm"}) as download:
        sound = download.iter_raw()  # kept, since its end would be the download's
        next(sound)
        first.speak("At last it is my turn, and I have a lot to say.")
        state = first.page.locator("[data-part=state]")
        first.page.wait_for_function(
            "document.querySelector('[data-part=state]').textContent.startsWith('1st in line, about ')"
        )
        assert first.state == "waiting"
        for width in (1280, 390):
            first.page.set_viewport_size({"width": width, "height": 844})
            assert state.evaluate("line => line.offsetHeight") < 30, "it fits a line"
        second.speak("Me too.")
        second.await_state("ready")
        second.page.wait_for_function("document.querySelector('.vx-trouble').dataset.shown === 'true'")
        assert "The queue is full (1 waiting). Please try again in about" in second.trouble
    first.await_sound()
    first.page.wait_for_function("document.querySelector('[data-part=state]').textContent === 'Speaking.'")
    for page in pages:
        page.close()
