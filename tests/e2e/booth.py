"""A person records their voice on the page, has the model speak in it, and deletes it."""

from __future__ import annotations

import io
import time
from pathlib import Path

import httpx
import numpy as np
import soundfile
from playwright.sync_api import Page, Playwright

from tests.e2e.desk import Desk
from tests.e2e.test_talk import RATE, silence, talking, voice
from tests.waiting import eventually

OWN = "voxrtc.voices.map(({ id }) => id)"


def check_cloned(playwright: Playwright, server: httpx.Client, model: str, folder: Path) -> None:
    """`model` is loaded and clones. The microphone hears a sentence over and over."""
    sound = [part for name in ("boat", "book") * 4 for part in (voice(name), silence(0.3))]
    with talking(playwright, server, folder / "said.wav", *sound) as desk:
        page = desk.page
        page.get_by_label("Model", exact=True).select_option(model)
        desk.hear("Yes.")  # there is a call, in a voice of the model's
        page.get_by_role("button", name="Use a recording").click()
        record(page)
        make = page.get_by_role("button", name="Use this voice")
        make.click()
        await_words(page, "why", "tick that it is your voice")
        check_handled(page)
        page.get_by_role("button", name="Write it down").click()
        page.wait_for_function("document.querySelector('[name=said]').value.includes(' ')")
        page.get_by_label("This is my voice").check()
        make.click()
        mine = await_voice(desk, "My voice")
        check_chosen(desk, mine)
        kept = server.get(f"/v1/audio/voices/{mine}").json()["voxrtc"]
        assert kept["text"] and kept["seconds"] > 1.5 and kept["sample_rate"] == 48_000

        check_file(desk, server, folder, mine)
        page.get_by_role("button", name="Delete “a hum”").click()
        page.wait_for_function(f"{OWN}.length === 1")
        page.goto("about:blank")
        await_gone(server, mine)
        tell_times(server, model, np.concatenate(sound)[: 10 * RATE])


def record(page: Page) -> None:
    """Some two seconds, seen and counted; the page says how long is left."""
    page.locator("[name=record]").click()
    page.wait_for_function("parseFloat(document.querySelector('.vx-level').style.getPropertyValue('--level')) > 0.1")
    await_words(page, "clock", "28\u00a0s left")
    page.locator("[name=record]").click()
    page.wait_for_function("document.querySelector('.vx-booth audio').readyState > 0")
    assert page.get_by_role("button", name="Record anew").is_visible()


def check_handled(page: Page) -> None:
    """By fingers and by name, all of it; nothing is wider than a phone."""
    page.evaluate((Path(__file__).parent / "look.js").read_text("utf-8"))
    size = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("look.small(44)") == [] and page.evaluate("look.ids()") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if size:
        page.set_viewport_size(size)


def check_file(desk: Desk, server: httpx.Client, folder: Path, before: str) -> None:
    """What is wrong with a file is told; of one that could be better the voice is made, and that is told."""
    page, hum = desk.page, np.sin(np.arange(3 * 8_000) / 6).astype(np.float32)
    page.get_by_role("button", name="Use a recording").click()
    for name, level in (("nothing", 0.0), ("a hum", 0.2)):
        soundfile.write(folder / f"{name}.wav", level * hum, 8_000)
        page.locator("[name=sample]").set_input_files(folder / f"{name}.wav")
        page.get_by_label("This is my voice").check()
        page.get_by_role("button", name="Use this voice").click()
        if name == "nothing":
            await_words(page, "why", "It is silent.")
    made = await_voice(desk, "a hum")
    assert made != before and server.get(f"/v1/audio/voices/{before}").status_code == 200
    notes = page.locator(".vx-booth-notes").inner_text()
    assert "only 3.0 s long" in notes and "much noise" in notes and "8 kHz only" in notes


def check_chosen(desk: Desk, mine: str) -> None:
    """The call goes on with it at once: who talks does nothing more."""
    assert desk.answering["audio"]["output"]["voice"] == mine
    desk.hear("No.")
    assert desk.page.get_by_label("Voice", exact=True).input_value() == mine


def tell_times(server: httpx.Client, model: str, sound: np.ndarray) -> None:
    """How long a recording takes to be a voice, and that to sound by HTTP: first, and again."""
    file, began = io.BytesIO(), time.monotonic()
    soundfile.write(file, sound, RATE, format="WAV", subtype="PCM_16")
    made = server.post("/v1/audio/voices", files={"audio_sample": file.getvalue()}, data={"consent": "true"}).json()
    times = [time.monotonic() - began, first_sound(server, model, made["id"]), first_sound(server, model, made["id"])]
    assert server.delete(f"/v1/audio/voices/{made['id']}").json()["deleted"]
    upload, first, again = (1000 * each for each in times)
    print(f"10 s of a voice: uploaded and measured in {upload:.0f} ms, first sound {first:.0f} ms, again {again:.0f} ms")


def first_sound(server: httpx.Client, model: str, voice: str) -> float:
    """Seconds until it comes; then all of it is heard, so that nothing is under way."""
    wanted = {"input": "Yes.", "model": model, "voice": {"id": voice}, "response_format": "pcm"}
    began = time.monotonic()
    with server.stream("POST", "/v1/audio/speech", json=wanted) as answer:
        parts = answer.iter_raw()
        assert answer.status_code == 200 and next(parts)
        took = time.monotonic() - began
        for _ in parts:
            pass
    return took


def await_voice(desk: Desk, name: str) -> str:
    """Until the voice of this name is chosen; its id."""
    chosen = "document.querySelector('[name=voice]').selectedOptions[0]"
    desk.page.wait_for_function(f"name => {chosen}?.textContent === name", arg=name)
    return str(desk.page.evaluate(f"{chosen}.value"))


def await_words(page: Page, part: str, words: str) -> None:
    shown = f"document.querySelector('[data-part=booth-{part}]').textContent"
    page.wait_for_function(f"words => {shown}.includes(words)", arg=words)


def await_gone(server: httpx.Client, voice: str) -> None:
    """Until the server has it no longer; a page that closes tells nobody when it was heard."""
    eventually(lambda: server.get(f"/v1/audio/voices/{voice}").status_code == 404)
