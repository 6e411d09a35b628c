"""Machines with addresses of their own, and a wire between them that tests make bad.

What needs them is marked `network` and left out of `make test`: `make test-network`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.e2e.conftest import chromium, running
from tests.e2e.desk import Desk, open_window
from tests.network.conditions import Conditions
from tests.network.machines import SERVER, Machines


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


@pytest.fixture(scope="session")
def server(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The product, on the server's machine; ask it from there (`machines.server.inside()`)."""
    with machines.server.inside():
        product = running(tmp_path_factory.mktemp("server") / "log.txt", HOST=SERVER, VOXRTC_ICE_LOOPBACK="0")
        client = product.__enter__()
    yield client
    product.__exit__(None, None, None)


@pytest.fixture(scope="session")
def playwright(machines: Machines) -> Iterator[Playwright]:
    """On the person's machine, as are the browsers that it starts."""
    with machines.person.inside():
        manager = sync_playwright()
        playwright = manager.start()
    yield playwright
    playwright.stop()


@pytest.fixture(scope="session")
def browser(playwright: Playwright, server: httpx.Client) -> Iterator[Browser]:
    """A Chromium to which the server is as good as one with https."""
    with chromium(playwright, f"--unsafely-treat-insecure-origin-as-secure={server.base_url}") as browser:
        yield browser


@pytest.fixture
def desk(wire: Machines, browser: Browser, server: httpx.Client) -> Iterator[Desk]:
    """The page of the product, opened and recorded; the wire is still good."""
    desk = Desk(open_window(browser), str(server.base_url))
    yield desk
    desk.page.context.close()
