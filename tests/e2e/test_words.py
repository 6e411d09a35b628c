"""The transcript: words light up when they are heard, and what an interruption left unheard is struck through."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from tests.e2e.desk import Desk, open_window

TEXT = "Good 🌞 morning! The kettle is on, and we have the whole day."
HEARD = len("Good 🌞 morning! The kettle")
ASR = "conversation.item.input_audio_transcription"
LIT = "[...document.querySelectorAll('.vx-line:last-child .vx-word')].filter(word => word.dataset.lit === 'true')"
LIT += ".map(word => word.textContent).join('')"
SLOW_BUFFER = """() => {
    let looks = 1e6; // far more than the call had until now
    const real = RTCPeerConnection.prototype.getStats;
    RTCPeerConnection.prototype.getStats = async function () {
        looks++;
        const figures = { jitterBufferDelay: 400 * looks, jitterBufferEmittedCount: 1000 * looks };
        const others = [...(await real.call(this))].filter(([, { type }]) => type !== "inbound-rtp");
        return new Map([...others, ["in", { type: "inbound-rtp", ...figures }]]);
    };
}"""


@pytest.fixture(scope="module")
def called(browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    """A page in a call, in which nothing is being said; all tests say something more in it."""
    desk = Desk(open_window(browser), str(server.base_url))
    desk.hear("Yes.")
    yield desk
    desk.page.close()


def tell(desk: Desk, response: str) -> None:
    """The voice begins a response, and its words are known."""
    desk.hear_from_server("response.output_audio_transcript.delta", response_id=response, delta=TEXT[:20])
    desk.hear_from_server("response.output_audio_transcript.delta", response_id=response, delta=TEXT[20:])


def test_what_an_interruption_left_unheard_is_struck_and_stays_so(called: Desk) -> None:
    """Said to screen readers, too; by what the server says last, as the conversation remembers that."""
    page = called.page
    tell(called, "cut")
    called.hear_from_server("voxrtc.heard", response_id="cut", item_id="i1", characters=4)
    called.hear_from_server("response.done", response={"id": "cut", "status": "cancelled"})
    called.hear_from_server("voxrtc.heard", response_id="cut", item_id="i1", characters=HEARD)
    called.hear_from_server("output_audio_buffer.cleared", response_id="cut")
    cut = page.locator(".vx-line[data-state=cut]")
    struck = cut.get_by_role("deletion")
    assert struck.text_content() == TEXT[HEARD:].strip()
    assert "line-through" in struck.evaluate("element => getComputedStyle(element).textDecorationLine")
    assert cut.text_content() == f"{TEXT[:HEARD]} (interrupted here; not heard:){TEXT[HEARD:]}"
    called.hear_from_server("input_audio_buffer.committed", item_id="i2")
    called.hear_from_server(f"{ASR}.completed", item_id="i2", transcript="Stop.")
    called.hear("Very well.")
    assert struck.text_content() == TEXT[HEARD:].strip()


def test_words_are_not_read_out_as_they_grow(called: Desk) -> None:
    """A screen reader that reads along would speak over the voice, and into the microphone."""
    tell(called, "grows")
    live = "[aria-live], [role=log], [role=status], [role=alert]"
    assert called.page.locator(".vx-line").last.evaluate("(line, live) => line.closest(live)", live) is None
    assert called.page.get_by_role("list", name="What was said").is_visible()


def test_nothing_moves_for_those_who_want_that(called: Desk) -> None:
    tell(called, "still")
    word = called.page.locator(".vx-word").first
    moving = "word => parseFloat(getComputedStyle(word).transitionDuration) > 0"
    assert word.evaluate(moving)
    called.page.emulate_media(reduced_motion="reduce")
    assert not word.evaluate(moving)
    called.page.emulate_media(reduced_motion="no-preference")


def test_who_reads_further_up_is_left_there(called: Desk) -> None:
    """And who stands at the end sees what comes."""
    for number in range(12):
        tell(called, f"r{number}")
    lines = called.page.locator(".vx-lines")
    lines.evaluate("list => list.scrollTop = 40")
    tell(called, "later")
    assert lines.evaluate("list => list.scrollTop") == 40
    lines.evaluate("list => list.scrollTop = list.scrollHeight")
    tell(called, "latest")
    assert lines.evaluate("list => list.scrollHeight - list.scrollTop - list.clientHeight") < 2


def test_words_light_up_not_before_they_are_heard(called: Desk) -> None:
    """The jitter buffer holds 400 ms here; a character is a code point, as the server counts them."""
    page = called.page
    page.evaluate(SLOW_BUFFER)
    tell(called, "lit")
    called.hear_from_server("voxrtc.heard", response_id="lit", item_id="i1", characters=0)  # figures count from here
    assert page.evaluate(LIT) == ""
    waited = page.evaluate(
        """async ([characters, lit]) => {
            const told = performance.now();
            wire.say({ type: "voxrtc.heard", response_id: "lit", item_id: "i1", characters });
            while (!eval(lit)) await new Promise(requestAnimationFrame);
            return performance.now() - told;
        }""",
        [HEARD, LIT],
    )
    assert waited >= 399
    assert page.evaluate(LIT) == TEXT[:HEARD]
    called.hear_from_server("voxrtc.heard", response_id="lit", item_id="i1", characters=len(TEXT))
    called.hear_from_server("output_audio_buffer.stopped", response_id="lit")
    page.wait_for_function("!document.querySelector('.vx-line:last-child .vx-word')")
    assert page.locator(".vx-line").last.inner_text() == TEXT


def test_the_voice_lights_its_own_words(called: Desk) -> None:
    """One by one, and no more once it is stopped."""
    page = called.page
    said = "Good morning! The kettle is on, the window is open, and we have the whole day ahead of us."
    called.speak(said)
    steps = page.evaluate(
        """async (lit) => {
            const steps = new Set();
            while (!eval(lit).startsWith("Good morning! The kettle")) {
                steps.add(eval(lit));
                await new Promise(requestAnimationFrame);
            }
            return [...steps];
        }""",
        LIT,
    )
    assert steps[-1] and all(said.startswith(step) for step in steps), steps
    page.get_by_role("button", name="Stop").click()
    cut = page.locator(".vx-line[data-state=cut]").last
    cut.get_by_text("the whole day ahead of us").wait_for()
    struck = str(cut.get_by_role("deletion").text_content())
    assert said.startswith("Good morning! The kettle") and said.endswith(struck)
    assert 30 < len(struck) < len(said) - len("Good morning! The kettle") + 1


def test_a_typed_message_is_a_turn(desk: Desk) -> None:
    """It is shown as the person's and sent as the person's words; without somebody to answer it is spoken as it is."""
    field = desk.page.get_by_label("Message")
    field.fill("A page of the book is missing.")
    field.press("Enter")
    desk.await_sound()
    assert desk.await_lines(1) == ["A page of the book is missing."]
    assert field.input_value() == ""
    desk.page.get_by_role("button", name="Interrupt").click()
    desk.await_state("ready")
    assert desk.page.evaluate("wire.types()") == [
        "conversation.item.create", "response.create", "response.cancel", "output_audio_buffer.clear",
    ]  # fmt: skip
