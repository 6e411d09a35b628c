"""A person talks to the page: a recording of Lark's voice, through Chromium's fake microphone."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
import soxr
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, Playwright

from tests.e2e import ear
from tests.e2e.conftest import chromium
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_calls import LONG
from tests.e2e.test_turns import MOUTH
from tests.speech import SAID, recorded

RATE = 48_000
SILENT_WITHIN = (200, 300)  # ms from the onset of speech, median and p95, on a quiet machine; Chromium's stages are in it
BREATHLESS = " ".join(
    ["the river runs past the mill and under the bridge and on through the quiet fields to the sea where"] * 8
)
INTERRUPTIONS = int(os.environ.get("VOXRTC_INTERRUPTIONS", "2"))


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE), np.float32)


def voice(name: str) -> np.ndarray:
    """A recorded sentence, float32 at `RATE`."""
    return soxr.resample(recorded(name).astype(np.float32) / 32768, 16_000, RATE)


@contextmanager
def talking(
    playwright: Playwright,
    server: httpx.Client,
    file: Path,
    *sound: np.ndarray,
    rate: int = RATE,
    channels: int = 1,
    flags: Sequence[str] = (),
) -> Iterator[Desk]:
    """The page, in a Chromium whose microphone hears this once, from when it is opened."""
    samples = soxr.resample(np.concatenate([*sound, silence(30)]), RATE, rate)
    soundfile.write(file, np.repeat(samples[:, None], channels, axis=1), rate, subtype="PCM_16")
    fake = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with chromium(playwright, *flags, *fake, f"--use-file-for-fake-audio-capture={file}%noloop") as browser:
        yield Desk(open_window(browser), str(server.base_url))


def test_what_is_said_is_written_down(playwright: Playwright, server: httpx.Client, tmp_path: Path) -> None:
    """Turn for turn, and word for word; words come before the turn is over."""
    said = ["boat", "book"]
    sound = [part for name in said for part in (silence(1.2), voice(name))]
    with talking(playwright, server, tmp_path / "said.wav", *sound) as desk:
        desk.talk()
        desk.page.wait_for_function("voxrtc.hearing && voxrtc.lines.some(({ text }) => text)")
        heard = desk.await_lines(len(said))
        rate = ear.wer([SAID[name] for name in said], heard)
        print(f"{rate:.1%} of the words wrong:", *heard, sep="\n")
        assert rate <= 0.05, heard
        assert not desk.trouble
        assert desk.state == "ready"


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (44_100, 2)])
def test_any_microphone_will_do(playwright: Playwright, server: httpx.Client, tmp_path: Path, rate: int, channels: int) -> None:
    with talking(playwright, server, tmp_path / "said.wav", silence(1.2), voice("boat"), rate=rate, channels=channels) as desk:
        desk.talk()
        heard = desk.await_lines(1)
        assert ear.wer([SAID["boat"]], heard) <= 0.2, heard


@pytest.mark.sound
def test_noise_is_not_taken_for_speech(playwright: Playwright, server: httpx.Client, tmp_path: Path) -> None:
    """Then somebody speaks, which is."""
    noise = np.random.default_rng(0).normal(0, 0.05, 4 * RATE).astype(np.float32)
    with talking(playwright, server, tmp_path / "noise.wav", noise, silence(0.5), voice("boat")) as desk:
        desk.talk()
        assert ear.wer([SAID["boat"]], desk.await_lines(1)) <= 0.1


@pytest.mark.sound
def test_speech_silences_the_voice(page: Page, server: httpx.Client) -> None:
    """At once, each time; and the next sentence is heard again, from its first word on. `make interruptions` does 30."""
    desk = Desk(page, str(server.base_url))
    page.evaluate(MOUTH)
    page.evaluate("mouth.open()")
    desk.talk()
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    page.evaluate("recorder.listen()")
    said = recorded("book")  # long enough to be an interruption whatever its words, and one turn
    pcm = base64.b64encode(said.tobytes()).decode()
    pauses = np.random.default_rng(0).uniform(200, 1_500, INTERRUPTIONS)
    within = []
    for number, pause in enumerate(pauses):
        desk.speak(BREATHLESS)  # who breaks in on a pause proves nothing
        desk.await_sound()
        page.wait_for_timeout(pause)
        page.evaluate("pcm => mouth.say(pcm)", pcm)
        desk.await_state("ready")
        desk.await_lines(number + 1)
        within.append(page.evaluate("recorder.silencedWithin()"))
        assert desk.await_lines(number + 1, "voice")
    median, late = np.percentile(within, [50, 95])
    print(f"speech onset -> last audible sample: median {median:.0f}, p95 {late:.0f} ms;", *map(round, within))
    assert max(within) < 1000 * len(said) / 16_000, "they had finished"
    assert INTERRUPTIONS < 20 or (median <= SILENT_WITHIN[0] and late <= SILENT_WITHIN[1]), within
    desk.talk()  # off: nobody interrupts any more
    heard = ear.transcribe(ear.prepare(*desk.hear(SAID["boat"])))
    assert ear.wer([SAID["boat"]], [heard]) <= 0.1 and heard.startswith("The small"), heard


@pytest.mark.sound
def test_a_held_voice_is_silent_at_once_and_goes_on_when_resumed(desk: Desk) -> None:
    """In the page alone: the server, which knows nothing of it, goes on sending."""
    page = desk.page
    desk.speak(LONG)
    desk.await_sound()
    page.evaluate("window.speaking = voxrtc.lines.at(-1).id")
    held = "wire.say({ type: 'voxrtc.held', response_id: speaking })"
    assert page.evaluate(f"recorder.audibleAfter(() => {held}, 500)") <= 150
    assert desk.state == "speaking" and page.get_by_text("Hearing you").is_visible()
    page.evaluate("wire.say({ type: 'voxrtc.resumed', response_id: speaking })")
    desk.take()
    desk.await_sound()
    page.get_by_role("button", name="Stop").click()


def test_a_microphone_switched_off_hears_nothing(playwright: Playwright, server: httpx.Client, tmp_path: Path) -> None:
    """And what was said by then is a turn."""
    with talking(playwright, server, tmp_path / "said.wav", silence(0.8), voice("boat")) as desk:
        desk.talk()
        desk.page.wait_for_function("voxrtc.hearing")
        desk.page.wait_for_timeout(800)
        desk.talk()
        desk.page.wait_for_function("voxrtc.microphone === null")
        assert desk.await_lines(1)
        desk.page.wait_for_timeout(1_000)
        assert len(desk.await_lines(1)) == 1


@pytest.mark.sound
def test_what_is_said_is_answered(playwright: Playwright, answering: tuple[httpx.Client, FastAPI], tmp_path: Path) -> None:
    """By a chat endpoint, in the voice; and somebody who breaks in is answered, too."""
    server, chat = answering
    first = f"That is a good question, I think. {LONG}"
    chat.state.answers[:], chat.state.asked[:] = [first, "Of course. What would you like to talk about?"], []
    sound = [silence(1.5), voice("boat"), silence(5), voice("book")]
    with talking(playwright, server, tmp_path / "mic.wav", *sound) as desk:
        desk.talk()
        desk.page.wait_for_function("voxrtc.microphone")
        desk.page.evaluate("recorder.listen()")
        desk.await_sound()
        within = desk.page.evaluate("recorder.answeredWithin()")
        desk.await_lines(2, "voice")
        assert not desk.trouble
        desk.page.wait_for_timeout(400)
        heard = ear.transcribe(ear.prepare(*desk.take()))
    assert heard.startswith("That is a good question")
    assert "what would you like to talk about" in heard.lower()
    print(f"end of speech -> first audible sample of the answer: {within:.0f} ms")
    assert 300 < within < 3_000  # some silence, to know that the turn is over, is in it
    _, second = chat.state.asked
    roles = [message["role"] for message in second["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert 5 < len(second["messages"][2]["content"].split()) < 60  # what was heard, of 250


def test_no_microphone_is_told(desk: Desk) -> None:
    """And the page speaks on."""
    desk.talk()
    desk.await_trouble("No microphone was found")
    desk.page.wait_for_function("!voxrtc.listening")
    desk.hear("Hello.")


def test_a_forbidden_microphone_is_told(playwright: Playwright, server: httpx.Client) -> None:
    with chromium(playwright, "--use-fake-device-for-media-stream", "--deny-permission-prompts") as browser:
        desk = Desk(forbidden(browser), str(server.base_url))
        desk.talk()
        desk.await_trouble("The microphone is blocked")
        desk.page.wait_for_function("!voxrtc.listening")


def forbidden(browser: Browser) -> Page:
    return browser.new_context().new_page()
