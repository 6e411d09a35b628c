"""UDP is blocked, from the start or amid a sentence: the sound takes another way, and the conversation goes on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e import ear
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_calls import LONG, stats
from tests.e2e.test_turns import MOUTH
from tests.speech import SAID, recorded
from tests.waiting import eventually

pytestmark = pytest.mark.sound

BLOCKED = (Path(__file__).parent / "blocked.js").read_text("utf-8")
SENTENCE = (
    "The old lighthouse had been dark for thirty years, but one quiet evening in May the light went round again, "
    "and all left their curtains open."
)


@pytest.fixture
def desk(browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    page = open_window(browser)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.add_init_script(BLOCKED)
    yield Desk(page, str(server.base_url))
    page.close()
    assert not complaints


def way(page: Page) -> str:
    return str(page.evaluate("voxrtc.way"))


def test_where_udp_is_blocked_the_voice_is_heard_and_can_be_interrupted(desk: Desk) -> None:
    """And the page says why it is slower. What was cut off is in the history as far as it was heard."""
    page = desk.page
    page.evaluate("udp.block()")
    said = "Would you like to walk along the river before dinner?"
    heard = ear.transcribe(ear.prepare(*desk.hear(said)))
    assert ear.wer([said], [heard]) <= 0.1, heard
    assert way(page) == "tunnel"
    print(f"click -> first sound, UDP blocked: {page.evaluate('voxrtc.journey.total'):.0f} ms")
    page.get_by_text("UDP is blocked, here or at the server").wait_for()
    page.evaluate(MOUTH)
    page.evaluate("mouth.open()")
    desk.talk()
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    desk.speak(LONG)
    page.wait_for_function("voxrtc.lines.some(({ who, state, heard }) => who === 'voice' && state === 'open' && heard > 20)")
    page.evaluate("pcm => mouth.say(pcm)", base64.b64encode(recorded("book").tobytes()).decode())
    (mine,) = desk.await_lines(1)
    assert ear.wer([SAID["book"]], [mine]) <= 0.2, mine
    desk.await_state("ready")
    page.wait_for_function("voxrtc.lines.some(({ who, state }) => who === 'voice' && state === 'cut')")
    cut = page.evaluate("voxrtc.lines.findLast(({ who, state }) => who === 'voice' && state === 'cut')")
    assert 0 < cut["heard"] < len(cut["text"]) / 2
    desk.talk()
    heard = ear.transcribe(ear.prepare(*desk.hear(SAID["boat"])))
    assert ear.wer([SAID["boat"]], [heard]) <= 0.1, heard


def test_a_sentence_goes_on_when_its_line_breaks(desk: Desk, server: httpx.Client) -> None:
    """No word is lost, and none is said twice."""
    page = desk.page
    peers = stats(server)["media"]["peers"]
    desk.speak(SENTENCE)
    desk.await_sound()
    page.wait_for_timeout(1_000)
    page.evaluate("udp.block()")
    desk.await_trouble("The connection broke")
    desk.await_calm()
    assert way(page) == "tunnel"
    desk.await_state("ready")
    page.wait_for_timeout(400)
    heard = ear.transcribe(ear.prepare(*desk.take()))
    print(heard)
    assert ear.wer([SENTENCE], [heard]) <= 0.1, heard
    eventually(lambda: stats(server)["media"]["peers"] == peers + 1, 5.0)
