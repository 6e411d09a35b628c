"""What a person does before the page, and a recorder on the sound it plays."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from playwright.sync_api import Browser, BrowserContext, Page

SCRIPTS = [(Path(__file__).parent / name).read_text("utf-8") for name in ("recorder.js", "wire.js")]
PATIENCE = 60_000  # ms: the longest a sentence may take on a busy machine


# A window begins without what the one before remembered
FORGETFUL = """
if (location.protocol.startsWith("http") && !sessionStorage.getItem("seen")) {
    localStorage.clear();
    sessionStorage.setItem("seen", "1");
}
"""
_contexts: WeakKeyDictionary[Browser, dict[str, list[BrowserContext]]] = WeakKeyDictionary()


def open_window(browser: Browser, **options: Any) -> Page:
    """A fresh window, in the place of one that was closed: it finds the page's files there, which halves the time to open it.

    Those that are open together share nothing, as those of different people do: of one's windows all have six connections.
    The page uses no microphone; but to origins that may use it Chromium also offers its loopback addresses, and on a
    machine without a network it has no others.
    """
    places = _contexts.setdefault(browser, {}).setdefault(repr(sorted(options.items())), [])
    place = next((place for place in places if not place.pages), None)
    if place is None:
        place = browser.new_context(permissions=["microphone"], **options)
        places.append(place)
    page = place.new_page()
    page.add_init_script(FORGETFUL)
    return page


class Desk:
    """One page, opened, with its recorder running."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        page.set_default_timeout(PATIENCE)
        for script in SCRIPTS:
            page.add_init_script(script)
        self.open()

    def open(self) -> None:
        """Load the page, or load it anew."""
        self.page.goto(self.url)
        self.page.wait_for_function("window.voxrtc && document.querySelector('[name=speak]')")
        self.page.evaluate("recorder.start()")

    @property
    def state(self) -> str:
        """The connection's state, in the page's own word."""
        return str(self.page.evaluate("voxrtc.state"))

    @property
    def trouble(self) -> str:
        """The notice on show, or nothing."""
        notice = self.page.locator(".vx-trouble")
        return notice.inner_text() if notice.get_attribute("data-shown") == "true" else ""

    def speak(self, text: str) -> None:
        """Type and press; the recording begins with the press."""
        self.page.get_by_label("Text").fill(text)
        self.page.evaluate("recorder.from(() => document.querySelector('[name=speak]').click())")

    def await_state(self, *states: str) -> None:
        """Until the page is in one of the states."""
        self.page.wait_for_function("states => states.includes(voxrtc.state)", arg=list(states))

    def await_sound(self) -> None:
        """Until something audible was recorded."""
        self.page.wait_for_function("recorder.heard")

    def take(self) -> tuple[np.ndarray, int]:
        """The sound since the last `take` (float32 mono) and its sample rate."""
        samples = np.frombuffer(base64.b64decode(self.page.evaluate("recorder.take()")), np.float32)
        return samples, int(self.page.evaluate("recorder.rate"))

    def hear(self, text: str) -> tuple[np.ndarray, int]:
        """Have a text spoken to its end; its sound."""
        self.speak(text)
        self.await_sound()
        self.await_state("ready", "disconnected")
        self.page.wait_for_timeout(400)  # what the jitter buffer still holds
        assert not self.trouble
        return self.take()

    def talk(self) -> None:
        """Press Talk: the microphone goes on, or off."""
        self.page.locator("[name=talk]").click()

    def await_lines(self, count: int, who: str = "you") -> list[str]:
        """Until one of the two has said so many things; what they said."""
        done = f"voxrtc.lines.filter(({{ who, state }}) => who === '{who}' && state !== 'open')"
        self.page.wait_for_function(f"{done}.length >= {count}")
        return list(self.page.evaluate(f"{done}.map(({{ text }}) => text)"))

    def await_trouble(self, words: str) -> None:
        """Until the notice on show has these words."""
        shown = "document.querySelector('.vx-trouble[data-shown=true]')?.innerText"
        self.page.wait_for_function(f"words => {shown}?.includes(words)", arg=words)

    def await_calm(self) -> None:
        """Until no notice is on show."""
        self.page.wait_for_function("document.querySelector('.vx-trouble').dataset.shown === 'false'")

    @property
    def answering(self) -> dict[str, Any]:
        """The session that the page has last asked for, in a call that goes on."""
        return dict(self.page.evaluate("wire.sent.findLast(({ type }) => type === 'session.update').session"))

    def hear_from_server(self, type: str, **fields: Any) -> None:
        """The page takes this for an event of the server's; there must be a call."""
        self.page.evaluate("event => wire.say(event)", {"type": type, **fields})

    def stats(self) -> dict[str, Any]:
        """WebRTC's own account of the sound that came in."""
        return dict(self.page.evaluate("voxrtc.stats()"))
