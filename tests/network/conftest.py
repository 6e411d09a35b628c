"""Machines with addresses of their own, and a wire between them that tests make bad.

What needs them is marked `network` and left out of `make test`: `make test-network`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.e2e.conftest import chromium, running
from tests.e2e.desk import PATIENCE, Desk, open_window
from tests.network.conditions import Conditions
from tests.network.machines import SERVER, Machines

RUNS = int(os.environ.get("VOXRTC_NETWORK_RUNS", "1"))  # of what the README counts
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
    machines.set(Conditions())


@contextmanager
def product(machines: Machines, folder: Path, **settings: str) -> Iterator[httpx.Client]:
    """The product on the server's machine. Its client is there, too: a further connection is made inside."""
    settings = {"HOST": SERVER, "VOXRTC_ICE_LOOPBACK": "0"} | settings
    with ExitStack() as stack:
        with machines.server.inside():
            client = stack.enter_context(running(folder / "log.txt", **settings))
        yield client


@pytest.fixture(scope="session")
def server(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The product as it comes."""
    with product(machines, tmp_path_factory.mktemp("server")) as client:
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
    with chromium(playwright, f"--unsafely-treat-insecure-origin-as-secure={server.base_url}") as browser:
        yield browser


@pytest.fixture
def desk(wire: Machines, browser: Browser, server: httpx.Client) -> Desk:
    """The page of the product, opened and recorded; the wire is still good."""
    return Desk(open_window(browser), str(server.base_url))


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
