"""Machines with addresses of their own, and a wire between them that tests make bad.

What needs them is marked `network` and left out of `make test`: `make test-network`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Error, Page, Playwright, sync_playwright

from tests.e2e.conftest import chromium
from tests.e2e.desk import PATIENCE, Desk, open_window
from tests.fake_chat import chat_app
from tests.network.machines import SERVER, Machines
from tests.program import running
from tests.serving import serving

RUNS = int(os.environ.get("VOXRTC_NETWORK_RUNS", "1"))  # of what the README counts
FLAG = "--unsafely-treat-insecure-origin-as-secure={}"
CALL = (Path(__file__).parent / "call.js").read_text("utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that need the machines."""
    for item in items:
        if isinstance(item, pytest.Function) and "machines" in item.fixturenames:
            item.add_marker(pytest.mark.network)


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """The three, for all tests. Skips where this process may not make them."""
    if not shutil.which("ip"):
        pytest.skip("no `ip` to set up a network with: install it (Debian: apt install iproute2)")
    try:
        machines = Machines()
    except OSError as error:
        pytest.skip(f"no network of our own ({error.strerror}): run `make test-network` as root")
    yield machines
    machines.close()


@pytest.fixture
def wire(machines: Machines) -> Iterator[Machines]:
    """The machines; their wire is good again afterwards."""
    yield machines
    machines.repair()


@contextmanager
def product(machines: Machines, folder: Path, **settings: str) -> Iterator[httpx.Client]:
    """The product on the server's machine. Its client is there, too: a further connection is made inside."""
    settings = {"HOST": SERVER, "VOXRTC_ICE_LOOPBACK": "0"} | settings
    with ExitStack() as stack:
        with machines.server.inside():
            client = stack.enter_context(running(folder / "log.txt", **settings))
        yield client


@pytest.fixture(scope="session")
def chat(machines: Machines) -> Iterator[FastAPI]:
    """A chat endpoint beside the server, at `state.url`: a test sets its `state.answers` and `state.asked`."""
    with ExitStack() as stack:
        app = chat_app()
        with machines.server.inside():
            host, port = stack.enter_context(serving(app))
        app.state.url = f"http://{host}:{port}/v1"
        yield app


@pytest.fixture(scope="session")
def server(machines: Machines, chat: FastAPI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The product, with somebody who answers."""
    settings = {"VOXRTC_CHAT_URL": chat.state.url, "VOXRTC_CHAT_KEY": "secret", "VOXRTC_CHAT_MODEL": "small"}
    with product(machines, tmp_path_factory.mktemp("server"), **settings) as client:
        yield client


@pytest.fixture(scope="session")
def playwright(machines: Machines) -> Iterator[Playwright]:
    """On the person's machine, as are the browsers that it starts."""
    with ExitStack() as stack:
        with machines.person.inside():
            playwright = stack.enter_context(sync_playwright())
        yield playwright


@pytest.fixture
def browser(playwright: Playwright, server: httpx.Client) -> Iterator[Browser]:
    """A Chromium to which the server is as good as one with https."""
    with chromium(playwright, FLAG.format(server.base_url)) as browser:
        yield browser


@contextmanager
def opened(browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    """The page of the product, opened and recorded."""
    desk = Desk(open_window(browser), str(server.base_url))
    try:
        yield desk
    finally:  # a page of a run that failed would go on talking beside the next ones
        desk.page.close()


def succeeded(once: Callable[[], str], times: int = RUNS) -> int:
    """How often that went well, of so many times; each tells how it went, or fails."""
    good = 0
    for number in range(times):
        try:
            print(f"{number + 1}: {once()}")
            good += 1
        except (AssertionError, Error) as failure:
            print(f"{number + 1}: FAILED: {failure}")
    print(f"{good} of {times}")
    return good


@pytest.fixture
def desk(wire: Machines, browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    with opened(browser, server) as desk:
        yield desk


class Plain:
    """A page of the server's in which there is nothing but `call.js`."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE)
        page.add_init_script(CALL)
        page.goto(f"{url}/healthz")

    def call(self, **configuration: Any) -> dict[str, float]:
        """Connect anew: ms until it was `answered` and `opened`."""
        return dict(self.page.evaluate("configuration => plain.call(configuration)", configuration))


@pytest.fixture
def plain(wire: Machines, browser: Browser, server: httpx.Client) -> Plain:
    """The wire is as the test's other fixtures made it."""
    return Plain(open_window(browser), str(server.base_url))
