"""Push to talk: by the space bar or by the button, held."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser

from tests.e2e import ear
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_calls import LONG
from tests.e2e.test_devices import PLAYED
from tests.e2e.test_turns import MOUTH
from tests.speech import SAID, recorded

STOP = round(1.1 * 16_000)  # samples of "Stop, please."
PUSHED = "document.querySelector('[name=talk]').dataset.on === 'true'"
ANSWERING = {"audio": {"input": {"turn_detection": {"type": "server_vad", "create_response": True}}}}


def push_to_talk(desk: Desk) -> None:
    desk.page.get_by_text("Push to talk", exact=True).click()
    desk.page.evaluate("document.activeElement.blur()")


@pytest.fixture(scope="module")
def opened(browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    """A page with push to talk, whose played microphone is open, in a call."""
    page = open_window(browser)
    page.add_init_script(PLAYED)
    desk = Desk(page, str(server.base_url))
    push_to_talk(desk)
    page.keyboard.press("Space")  # the first time it opens the microphone
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    page.wait_for_function("wire.sent.some(({ session }) => session?.audio.input?.turn_detection === null)")
    yield desk
    page.close()


@pytest.fixture
def pushing(opened: Desk) -> Desk:
    """It, as the test before left it: quiet."""
    opened.page.evaluate("document.activeElement.blur(), wire.types()")
    return opened


def test_what_is_said_while_the_button_is_held_is_a_turn(desk: Desk) -> None:
    """Nobody else finds the turn's end: a long silence in it does not, and letting go far from the button does."""
    page = desk.page
    page.evaluate(MOUTH)
    page.evaluate("mouth.open()")
    push_to_talk(desk)
    page.locator("[name=talk]").hover()
    page.mouse.down()
    page.wait_for_function(PUSHED)
    page.mouse.move(5, 5)
    said = np.concatenate([recorded("stop")[:STOP], np.zeros(16_000, np.int16), recorded("stop")[STOP:]])
    page.evaluate("pcm => mouth.say(pcm)", base64.b64encode(said.tobytes()).decode())
    page.wait_for_timeout(len(said) / 16)
    page.mouse.up()
    heard = desk.await_lines(1)
    assert ear.wer([SAID["stop"]], heard) <= 0.1, heard
    assert not page.evaluate("voxrtc.microphone.enabled")
    assert page.evaluate("wire.types()") == ["session.update", "input_audio_buffer.clear", "input_audio_buffer.commit"]
    assert not desk.trouble


def test_the_space_bar_interrupts_at_once_and_its_turn_is_answered(pushing: Desk) -> None:
    """Once its words are known."""
    page = pushing.page
    pushing.hear_from_server("session.created", session=ANSWERING)  # as where there is somebody to answer
    pushing.speak(LONG)
    page.evaluate("document.activeElement.blur()")
    pushing.await_sound()
    page.evaluate("wire.types()")
    page.keyboard.down("Space")
    page.wait_for_function(PUSHED)
    assert pushing.state == "ready"
    page.wait_for_timeout(300)
    page.keyboard.up("Space")
    page.wait_for_function("wire.sent.some(({ type }) => type === 'input_audio_buffer.commit')")
    pushing.hear_from_server("input_audio_buffer.committed", item_id="said")
    event = {"item_id": "said", "transcript": "Stop."}
    pushing.hear_from_server("conversation.item.input_audio_transcription.completed", **event)
    assert page.evaluate("wire.types()")[:5] == [
        "response.cancel",
        "output_audio_buffer.clear",
        "input_audio_buffer.clear",
        "input_audio_buffer.commit",
        "response.create",
    ]


def test_a_tap_interrupts_and_says_nothing(pushing: Desk) -> None:
    """It is no turn, and no mistake either."""
    pushing.speak(LONG)
    pushing.page.evaluate("document.activeElement.blur()")
    pushing.await_sound()
    pushing.page.evaluate("wire.types()")
    pushing.page.keyboard.press("Space")
    pushing.page.wait_for_timeout(500)
    sent = pushing.page.evaluate("wire.types()")
    assert sent == ["response.cancel", "output_audio_buffer.clear", "input_audio_buffer.clear"]
    assert pushing.state == "ready" and not pushing.trouble
    pushing.hear("And now something else.")


def test_leaving_the_window_lets_go(pushing: Desk) -> None:
    pushing.page.keyboard.down("Space")
    pushing.page.wait_for_function(PUSHED)
    pushing.page.evaluate("dispatchEvent(new Event('blur'))")
    pushing.page.wait_for_function(f"!({PUSHED})")
    pushing.page.wait_for_function("!voxrtc.microphone.enabled")


def test_space_in_a_text_is_a_space(pushing: Desk) -> None:
    field = pushing.page.get_by_label("Message")
    field.press_sequentially("two words")
    assert field.input_value() == "two words"
    assert pushing.page.evaluate("wire.types()") == []


def test_who_cannot_hold_presses_twice(pushing: Desk) -> None:
    """A click without a pointer comes from a switch, a voice or a screen reader."""
    click = "document.querySelector('[name=talk]').click()"
    pushing.page.evaluate(click)
    pushing.page.wait_for_function(PUSHED)
    pushing.page.evaluate(click)
    pushing.page.wait_for_function(f"!({PUSHED})")


def test_back_to_hands_free_the_server_finds_the_turns_again(pushing: Desk) -> None:
    pushing.page.get_by_text("Hands-free", exact=True).click()
    detection = "wire.sent.findLast(({ session }) => session)?.session.audio.input.turn_detection?.type"
    pushing.page.wait_for_function(f"{detection}?.endsWith('_vad') && voxrtc.microphone.enabled")
