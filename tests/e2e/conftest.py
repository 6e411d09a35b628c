"""A real Chromium before the real server: `python app.py` in a process of its own, sound over loopback WebRTC.

`VOXRTC_E2E_URL` names a server that already runs, to be tested instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Error, Page, Playwright, sync_playwright

from tests.e2e.desk import Desk, open_window
from tests.fake_chat import chat_app
from tests.program import running
from tests.serving import serving

HERE = Path(__file__).parent
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--allow-loopback-in-peer-connection",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-sandbox",
]


# They start programs of their own. Whoever has one of them last keeps the others waiting
LONG = [HERE / f"test_{name}.py" for name in ("models", "embedded", "public", "answers", "queue", "login", "crowd", "talk")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are browser tests. The files that take longest come first."""
    items.sort(key=lambda item: LONG.index(item.path) if item.path in LONG else len(LONG))
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """A Chromium without a microphone."""
    with chromium(playwright) as browser:
        yield browser


@contextmanager
def chromium(playwright: Playwright, *flags: str) -> Iterator[Browser]:
    """The system's Chromium, or Playwright's own, with these flags besides; without either the tests are skipped."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    try:
        browser = playwright.chromium.launch(executable_path=found, args=[*FLAGS, *flags])
    except Error as error:
        if found:
            raise
        pytest.skip(f"no Chromium: install it (Debian: apt install chromium). {str(error).splitlines()[0]}")
    try:
        yield browser
    finally:  # one that a failed test left would go on talking beside the next ones
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """An HTTP client of the product, which is ready to speak."""
    if url := os.environ.get("VOXRTC_E2E_URL"):
        with httpx.Client(base_url=url, timeout=60) as client:
            yield client
        return
    with running(tmp_path_factory.mktemp("server") / "log.txt") as client:
        yield client


@pytest.fixture(scope="session")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, FastAPI]]:
    """The product with a chat endpoint, and that endpoint (`fake_chat`): a test sets its `state.answers` and `state.asked`."""
    chat = chat_app()
    with serving(chat) as (host, port):
        settings = {"VOXRTC_CHAT_URL": f"http://{host}:{port}/v1", "VOXRTC_CHAT_KEY": "secret", "VOXRTC_CHAT_MODEL": "small"}
        with running(tmp_path_factory.mktemp("answering") / "log.txt", **settings) as client:
            yield client, chat


@pytest.fixture
def page(browser: Browser, server: httpx.Client) -> Iterator[Page]:
    """A fresh window that complains of nothing in its console."""
    page = open_window(browser)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert not complaints


@pytest.fixture
def desk(page: Page, server: httpx.Client) -> Desk:
    """The page of the product, opened and recorded."""
    return Desk(page, str(server.base_url))
