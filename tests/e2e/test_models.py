"""A person finds a model on the page, has it fetched from a hub and loaded, and hears it: tiny ones of each family."""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import yaml
from playwright.sync_api import Browser, Locator, Page, Playwright, Route

from tests.cards import lark_card
from tests.e2e.booth import check_cloned
from tests.e2e.desk import Desk, open_window
from tests.e2e.test_page import CALLS
from tests.fake_hub import Hub, serving
from tests.program import ROOT, running
from tests.speechlm.families import write_orpheus
from tests.tiny import GOLDEN, write
from voxrtc.cards import read_card
from voxrtc.machine import GPU


def write_pocket(folder: Path) -> Path:
    """The tiny checkpoint, laid out as the real one."""
    return shutil.copytree(GOLDEN / "pocket" / "languages" / "plain", folder, dirs_exist_ok=True)


@dataclass(frozen=True)
class Family:
    """A tiny random model, whose card is the real one's. `more` are files that a tiny one needs beside the real one's."""

    card: str
    write: Callable[[Path], Path]
    samples: int  # of a frame
    more: tuple[str, ...] = ()
    voices: tuple[str, ...] = ()  # where it has others


FAMILIES = {
    "cosyvoice2": Family("cosyvoice2", partial(write, "cosyvoice2"), 960),
    "csm": Family("csm", partial(write, "csm"), 1920),
    "orpheus": Family("orpheus", write_orpheus, 2048),
    "pocket": Family("pocket", write_pocket, 1920, ("languages/english/config.yaml",), ("default", "someone", "other")),
}


def card(family: Family) -> dict[str, Any]:
    """The card that ships, for the tiny one."""
    card = yaml.safe_load((ROOT / "models" / f"{family.card}.yaml").read_text())
    card["sources"][0]["files"] += family.more
    card["voices"] = list(family.voices) or card["voices"]
    card["needs"] = {"memory": 0.1, "stream": 0.01, "compute": 1}
    return card


@dataclass(frozen=True)
class Stock:
    """A hub that has the files of all families, and a server that has their cards and Lark, and none of those files."""

    hub: Hub
    server: httpx.Client

    @property
    def gate(self) -> threading.Event:
        assert self.hub.gate
        return self.hub.gate


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    folder = tmp_path_factory.mktemp("stock")
    published, models = folder / "published", folder / "models"
    models.mkdir()
    giant = {**yaml.safe_load((ROOT / "models" / "csm.yaml").read_text()), "name": "giant", "title": "Giant", "path": "giant"}
    giant["needs"] = {"memory": 90_000, "stream": 1, "compute": 1}
    (models / "giant.yaml").write_text(yaml.safe_dump(giant))
    lark_card(models)
    hub = Hub(gate=threading.Event())
    for family in FAMILIES.values():
        publish(family, published, models, hub)
    settings = {"VOXRTC_MODELS": str(models), "HF_HUB_OFFLINE": "", "HF_TOKEN": ""}
    with serving(hub), running(folder / "log.txt", **settings, HF_ENDPOINT=hub.url) as server:
        yield Stock(hub, server)


def publish(family: Family, published: Path, models: Path, hub: Hub) -> None:
    """Its card for the server, its files for the hub."""
    for place in (published, models):
        place.mkdir(exist_ok=True)
        (place / f"{family.card}.yaml").write_text(yaml.safe_dump(card(family)))
    tiny = read_card(published, family.card)
    family.write(tiny.folder)
    for source in tiny.sources:
        hub.add(source.repo, tiny.place(source), revision=source.revision)


def on_card(page: Page, name: str) -> Locator:
    return page.locator(f".vx-model[data-model={name}]")


def await_state(page: Page, name: str, state: str) -> None:
    """Until the model's card says so."""
    page.wait_for_function(
        "([name, state]) => document.querySelector(`.vx-model[data-model=${name}]`)?.dataset.state === state", arg=[name, state]
    )


def test_terms_that_were_not_accepted_are_told_and_loading_is_seen_and_cancelled_by_all(browser: Browser, stock: Stock) -> None:
    stock.gate.clear()
    repo = stock.hub.repos["canopylabs/orpheus-3b-0.1-ft"]
    repo.gated = True
    desk = Desk(open_window(browser, viewport={"width": 390, "height": 844}), str(stock.server.base_url))
    page, card = desk.page, on_card(desk.page, "orpheus")
    card.get_by_role("link", name="terms to accept").wait_for()
    card.get_by_role("button", name="Download and load").click()
    await_state(page, "orpheus", "failed")
    assert "hf auth login" in card.inner_text() and "https://huggingface.co/canopylabs" in card.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    repo.gated = False
    card.get_by_role("button", name="Try again").click()
    wait_for_bar(page, "orpheus", "bar => bar.value > 0 && bar.value < bar.max")
    other = Desk(open_window(browser), str(stock.server.base_url)).page
    for window in (page, other):
        if window is page:
            desk.open()  # loaded anew
        wait_for_bar(window, "orpheus", "bar => bar.value > 0 && bar.value < bar.max")
        assert "Downloading …" in on_card(window, "orpheus").inner_text() and "MB" in on_card(window, "orpheus").inner_text()
    on_card(other, "orpheus").get_by_role("button", name="Cancel").click()
    for window in (other, page):
        await_state(window, "orpheus", "unloaded")
    other.close()
    page.get_by_label("Model", exact=True).select_option("lark")
    desk.hear("Good morning.")
    page.close()


def test_what_does_not_fit_says_how_much_lacks_and_is_refused(browser: Browser, stock: Stock) -> None:
    page = Desk(open_window(browser), str(stock.server.base_url)).page
    card = on_card(page, "giant")
    page.wait_for_function("document.querySelector('.vx-model[data-model=giant]')?.dataset.verdict === 'too big'")
    assert "GB more" in card.inner_text() and "Text to speech" in card.inner_text() and "4\u00a0voices" in card.inner_text()
    card.get_by_role("button", name="Download and load").click()
    page.wait_for_function("document.querySelector('.vx-model[data-model=giant] .vx-why').textContent.includes('needs about')")
    assert card.get_attribute("data-state") == "unloaded"
    assert on_card(page, "lark").get_attribute("data-state") == "ready", "nothing went in vain"
    page.close()


ALIKE = ("csm", "orpheus")  # on their way here they differ from the others in nothing


@pytest.mark.sound
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.families if name in ALIKE else ()) for name in FAMILIES])
def test_a_model_is_fetched_loaded_chosen_and_heard(
    playwright: Playwright, browser: Browser, stock: Stock, name: str, tmp_path: Path
) -> None:
    stock.gate.clear()
    family, server = FAMILIES[name], stock.server
    desk = Desk(open_window(browser), str(server.base_url))
    page, shelf = desk.page, desk.page.locator(".vx-chosen")
    title = card(family)["title"]
    if name == "pocket" and not GPU.exists():
        suggestion = page.locator(".vx-suggestion")
        suggestion.wait_for()
        assert f"{title} suits this computer" in suggestion.inner_text()
        check_refused(page, suggestion)
        suggestion.get_by_role("button").click()
    else:
        page.get_by_label("Model", exact=True).select_option(name)
        page.wait_for_function("document.querySelector('[name=speak]').disabled")
        shelf.get_by_role("button", name="Download and load").click()
    wait_for_bar(page, name, "bar => bar.max > 1 && bar.value > 0 && bar.value < bar.max")
    assert "Downloading …" in shelf.inner_text() and "MB" in shelf.inner_text()
    assert page.get_by_label("Model", exact=True).input_value() == name
    assert f"{title} is being loaded" in page.locator("[data-part=state]").inner_text()
    stock.gate.set()
    page.wait_for_function("document.querySelector('.vx-chosen').dataset.state === 'ready'", timeout=180_000)

    if name == "cosyvoice2":
        check_told_how(desk)
    sound, rate = desk.hear("Yes.")
    check_heard(sound, rate, server, family)
    check_spoken(server, family)
    if name == "pocket":
        check_compared(desk)
        assert desk.answering["model"] == name, "not the one that was compared with it"
        for way in ("button", "key"):
            check_stopped_while_connecting(Desk(open_window(browser), str(server.base_url)), way)
        assert "in your voice" in on_card(page, name).inner_text(), "its weights can, though not those that the card names"
        check_cloned(playwright, server, name, tmp_path)
    unload(desk, name)
    page.close()


def check_refused(page: Page, suggestion: Locator) -> None:
    """Why is told beside the suggestion, and who spoke before still does."""
    refusal = {"error": {"code": "no_room", "message": "It needs about 9 GB."}}
    page.route("**/load", lambda route: route.fulfill(status=409, json=refusal), times=1)
    suggestion.get_by_role("button").click()
    page.locator("[data-part=suggestion-why]", has_text="It needs about 9 GB.").wait_for()
    assert page.get_by_label("Model", exact=True).input_value() == "lark"


def check_told_how(desk: Desk) -> None:
    """A line says how to speak, for this model and for Lark none; what it says comes to the model, which finds it too much."""
    page, line = desk.page, desk.page.get_by_label("How to speak")
    line.fill("very slowly " * 60)
    page.get_by_label("Text to be spoken").fill("Yes.")
    page.locator("[name=speak]").click()
    desk.await_trouble("Please use fewer.")
    page.get_by_label("Model", exact=True).select_option("lark")
    line.wait_for(state="hidden")
    page.get_by_label("Model", exact=True).select_option("cosyvoice2")
    line.wait_for()
    line.fill("slowly")
    assert desk.answering["model"] == "cosyvoice2" and desk.answering["voxrtc"]["instructions"] == "slowly"


def wait_for_bar(page: Page, name: str, holds: str) -> None:
    page.wait_for_function(f"bar => bar && ({holds})(bar)", arg=on_card(page, name).locator("progress").element_handle())


def check_stopped_while_connecting(desk: Desk, way: str) -> None:
    """A comparison: the line opens, and nothing is said."""
    held: list[Route] = []
    page, go = desk.page, desk.page.locator("[name=compare]")
    page.get_by_label("Second model").select_option("pocket")
    page.route(CALLS, lambda route: held.append(route))
    go.click()
    desk.await_state("connecting")
    if way == "button":
        page.locator("[name=stop]").click()
    else:
        go.press("Escape")
    assert go.inner_text() == "Compare"
    for route in held:
        route.continue_()
    page.unroute(CALLS)
    desk.await_state("ready")
    assert "response.create" not in page.evaluate("wire.types()")
    page.close()


def check_compared(desk: Desk) -> None:
    """The same sentence by Lark and by the new model: one after the other, with where the time of each went."""
    page, group = desk.page, desk.page.get_by_role("group", name="Compare")
    group.get_by_label("First model").select_option("lark")
    group.get_by_label("Second model").select_option("lark")
    page.evaluate("recorder.take()")
    go = page.locator("[name=compare]")
    go.click()
    assert "Both are the same" in group.get_by_role("alert").inner_text()
    group.get_by_label("Second model").select_option("giant")
    go.click()
    assert "Giant can be compared when it is loaded" in group.get_by_role("alert").inner_text()

    group.get_by_label("Second model").select_option("pocket")
    group.get_by_label("Sentence").fill("Yes.")
    go.click()
    page.wait_for_function("voxrtc.sides.length === 2 && voxrtc.sides.every(({ state }) => state === 'done')")
    lark, pocket = page.evaluate("voxrtc.sides")
    assert lark["asked"] < lark["heard"] < lark["ended"] < pocket["asked"] < pocket["heard"] < pocket["ended"]
    for side, figures in (("a", lark), ("b", pocket)):
        assert figures["journey"]["total"] == pytest.approx(figures["heard"] - figures["asked"])
        assert f"{figures['journey']['total']:.0f}" in page.locator(f"[data-part=ttfa-{side}]").inner_text().replace(",", "")
        assert page.locator(f"[data-part=stages-{side}] .vx-stage-chunk .vx-ms").inner_text() != "–"
    assert page.locator("[data-part=when] li").count() == 2 and "ms sooner" in page.locator("[data-part=verdict]").inner_text()

    page.get_by_label("Sentence").fill("This sentence is long enough to be stopped before it comes to its end.")
    go.click()
    page.wait_for_function("voxrtc.sides[0].state === 'heard'")
    go.click()  # now it says Stop
    page.wait_for_function("voxrtc.sides[0].state === 'cut' && voxrtc.sides[1].state === 'waiting' && voxrtc.state === 'ready'")
    assert go.inner_text() == "Compare"
    desk.take()


def frames(server: httpx.Client, family: Family) -> int:
    return int(server.get("/v1/voxrtc/stats").json()["engines"][family.card]["frames"])


def seconds(server: httpx.Client, family: Family, steps: int) -> float:
    """What so many steps of the model sound like."""
    rate = next(model for model in server.get("/v1/models").json()["data"] if model["id"] == family.card)
    return float(steps / rate["voxrtc"]["frame_rate"])


def check_heard(sound: np.ndarray, rate: int, server: httpx.Client, family: Family) -> None:
    """As long as the model made it, at the right speed: random weights make noise from the first to the last frame."""
    loud = np.flatnonzero(np.abs(sound) > 1e-3 * np.abs(sound).max())
    made = seconds(server, family, frames(server, family))
    assert made > 0.1 and (loud[-1] - loud[0]) / rate == pytest.approx(made, abs=0.25)


def check_spoken(server: httpx.Client, family: Family) -> None:
    """By HTTP, in whole frames of its own rate."""
    wanted = {"model": family.card, "input": "Yes.", "response_format": "wav"}
    answer = server.post("/v1/audio/speech", json=wanted)
    assert answer.status_code == 200, answer.text
    samples, rate = soundfile.read(io.BytesIO(answer.content), dtype="int16")
    assert rate == 24_000 and len(samples) and len(samples) % family.samples == 0 and np.abs(samples).max() > 100


def unload(desk: Desk, name: str) -> None:
    """Its memory is free again, and the page says so; the model that was there before still speaks."""
    page, shelf = desk.page, desk.page.locator(".vx-chosen")
    shelf.get_by_role("button", name="Unload").click()
    page.wait_for_function("document.querySelector('.vx-chosen').dataset.state === 'unloaded'")
    assert shelf.get_by_role("button", name="Load", exact=True).is_visible(), "its files are here now"
    page.get_by_label("Model", exact=True).select_option("lark")
    desk.hear("Good morning.")
    assert page.get_by_label("Model", exact=True).locator("option:checked").inner_text() == "Lark"
