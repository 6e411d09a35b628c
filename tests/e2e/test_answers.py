"""A person talks to a model that hears and answers by itself: a tiny Step-Audio 2, from the mouth to the ear."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, TimeoutError

from tests.e2e.desk import Desk, open_window
from tests.e2e.test_turns import MOUTH
from tests.program import ROOT, running
from tests.speech import recorded
from tests.speechlm.families import write_stepaudio2
from tests.waiting import eventually

NAME = "step-audio-2-mini"
ANSWERS = "voxrtc.lines.filter(({ who }) => who === 'voice').length"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The product with this model alone; nobody else could answer in it."""
    folder = tmp_path_factory.mktemp("answers")
    card = yaml.safe_load((ROOT / "models" / f"{NAME}.yaml").read_text())
    card["needs"] = {"memory": 0.1, "stream": 0.01, "compute": 1}
    (folder / f"{NAME}.yaml").write_text(yaml.safe_dump(card))
    write_stepaudio2(folder / card["path"])
    with running(folder / "log.txt", VOXRTC_MODELS=str(folder), VOXRTC_MODEL=NAME) as server:
        yield server


def test_a_person_talks_with_a_model_that_answers_by_itself(browser: Browser, server: httpx.Client) -> None:
    desk = Desk(open_window(browser), str(server.base_url))
    page, said = desk.page, base64.b64encode(recorded("book").tobytes()).decode()
    page.wait_for_function("document.querySelector('.vx-chosen').dataset.state === 'ready'")
    for what in ("[name=text]", "[data-part=examples]", "[name=speak]", "[data-part=replies]"):
        assert not page.locator(what).is_visible(), "it reads nothing out, and needs nobody who answers"
    assert "Speech to speech" in page.locator(f".vx-model[data-model={NAME}]").inner_text()

    page.evaluate(MOUTH)
    page.evaluate("mouth.open()")
    desk.talk()
    page.wait_for_function("voxrtc.microphone && voxrtc.state === 'ready'")
    page.evaluate("recorder.from(() => {})")
    page.evaluate("pcm => mouth.say(pcm)", said)
    desk.await_sound()
    page.wait_for_function("voxrtc.lines.some(({ who, text }) => who === 'voice' && text.trim())")
    answers = page.evaluate(ANSWERS)  # a turn may fall into two, on a busy machine

    def answered_again() -> bool:
        page.evaluate("pcm => mouth.say(pcm)", said)  # random weights find no end: this breaks in
        with suppress(TimeoutError):
            page.wait_for_function(f"{ANSWERS} > {answers}", timeout=10_000)
        return page.evaluate(ANSWERS) > answers

    eventually(answered_again)
    assert len(desk.await_lines(1, "voice")) >= 1 and desk.await_lines(2)
    desk.talk()  # off

    answers = page.evaluate(ANSWERS)
    page.get_by_label("Message", exact=True).fill("And now?")
    page.locator("[name=send]").click()
    page.wait_for_function(f"{ANSWERS} > {answers}")
    page.evaluate("recorder.from(() => {})")
    desk.await_sound()
    page.locator("[name=stop]").click()
    desk.await_state("ready")
    assert not desk.trouble
    page.close()
