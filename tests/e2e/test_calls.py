"""Stop, leaving, and what the server keeps of it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.desk import Desk
from tests.waiting import eventually

LONG = " ".join(["The river runs past the mill, under the bridge, and on through the quiet fields to the sea."] * 12)
SILENT_WITHIN = 150  # ms
FREE_WITHIN = 5.0  # s: what a dead browser may hold on to


def stats(server: httpx.Client) -> dict[str, Any]:
    """Counters of the engine and of the media process."""
    return dict(server.get("/v1/voxrtc/stats").json())


@pytest.mark.sound
def test_stop_is_silent_at_once_and_spares_the_engine(desk: Desk, server: httpx.Client) -> None:
    """Silence in the page's audio graph; the engine computes at most one frame more."""
    before = stats(server)["engines"]["lark"]
    desk.speak(LONG)
    desk.await_sound()
    audible = desk.page.evaluate("recorder.audibleAfter(() => document.querySelector('[name=stop]').click(), 1500)")
    assert audible <= SILENT_WITHIN
    assert desk.state == "ready"
    eventually(lambda: not stats(server)["engines"]["lark"]["streams"], FREE_WITHIN)
    after = stats(server)["engines"]["lark"]
    assert after["cancelled"] == before["cancelled"] + 1
    assert after["frames_after_cancel"] - before["frames_after_cancel"] <= 1


def test_after_stop_the_next_sentence_is_heard(desk: Desk) -> None:
    """The gain that Stop closed opens again."""
    desk.speak(LONG)
    desk.await_sound()
    desk.page.get_by_role("button", name="Stop").click()
    desk.page.wait_for_timeout(500)
    desk.hear("And now something else.")


def test_reload_frees_the_slot(desk: Desk, server: httpx.Client) -> None:
    """Mid-sentence; the engine's stream goes with the peer."""
    peers = stats(server)["media"]["peers"]
    desk.speak(LONG)
    desk.await_sound()
    assert stats(server)["media"]["peers"] == peers + 1
    desk.page.reload()
    eventually(lambda: stats(server)["media"]["peers"] == peers, FREE_WITHIN)
    eventually(lambda: not stats(server)["engines"]["lark"]["streams"], FREE_WITHIN)


def test_a_page_that_cannot_say_goodbye_frees_the_slot(desk: Desk, server: httpx.Client) -> None:
    """A crashed tab sends no DELETE; its silence tells."""
    peers = stats(server)["media"]["peers"]
    desk.speak(LONG)
    desk.await_sound()
    desk.page.evaluate("() => { window.fetch = async () => { throw new TypeError('gone'); }; }")
    desk.page.close()
    eventually(lambda: stats(server)["media"]["peers"] == peers, FREE_WITHIN + 1)


@pytest.mark.sound
def test_the_call_is_kept_for_the_next_sentence(desk: Desk, server: httpx.Client) -> None:
    """Connecting is paid for once."""
    desk.hear("First.")
    calls = stats(server)["media"]["calls"]
    desk.hear("Second.")
    assert stats(server)["media"]["calls"] == calls
    journey = desk.page.evaluate("voxrtc.journey")
    assert journey["stages"][0]["ms"] == pytest.approx(0, abs=20)
    stages = {stage["name"]: stage["ms"] for stage in journey["stages"]}
    assert sum(stages.values()) - stages.get("output", 0) == pytest.approx(journey["total"], abs=20)
