"""A network that lets no UDP through: the sound comes another way, soon after the click."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Playwright

from tests.e2e import ear
from tests.e2e.conftest import chromium
from tests.e2e.test_speech import SENTENCES
from tests.network.conditions import Conditions
from tests.network.conftest import FLAG, RUNS, opened, product, succeeded
from tests.network.machines import RELAY, Machines
from tests.network.turn import SECRET, TLS_PORT, Relay, relaying

SOUND_WITHIN = 3_000  # ms from the click, on a cold page
RELAYED, BLOCKED = "Connected through a relay", "UDP is blocked, here or at the server"


def first_sound(browser: Browser, server: httpx.Client, way: str, told: str, within: int = SOUND_WITHIN) -> str:
    """It comes this way, of which the person is `told`."""
    with opened(browser, server) as desk:
        heard = ear.transcribe(ear.prepare(*desk.hear(SENTENCES[0])))
        took = desk.page.evaluate("voxrtc.journey.total")
        assert desk.page.evaluate("voxrtc.way") == way
        desk.page.get_by_text(told).wait_for()
    assert ear.wer([SENTENCES[0]], [heard]) <= 0.3, heard  # the first words of a call are stretched, and one may be misheard
    assert took <= within, f"{took:.0f} ms"
    return f"first sound after {took:.0f} ms"


def test_through_a_websocket(browser: Browser, server: httpx.Client, wire: Machines) -> None:
    wire.set(Conditions(udp=False))
    assert succeeded(lambda: first_sound(browser, server, "tunnel", BLOCKED)) == RUNS
    assert not wire.set(Conditions())["down"]["passed udp"]


@pytest.fixture(scope="module")
def relay(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with relaying(machines.relay, RELAY, tmp_path_factory.mktemp("relay")) as relay:
        yield relay


class TestPersonWithoutUdp:
    """TURN over TLS, on the port of HTTPS: a firewall takes it for any website."""

    @pytest.fixture(scope="class")
    def server(self, machines: Machines, relay: Relay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
        turn = {"VOXRTC_TURN": relay.url("tls"), "VOXRTC_TURN_KEY": SECRET}
        with product(machines, tmp_path_factory.mktemp("server"), **turn) as client:
            yield client

    @pytest.fixture
    def browser(self, playwright: Playwright, server: httpx.Client, relay: Relay) -> Iterator[Browser]:
        trust = f"--ignore-certificate-errors-spki-list={relay.spki}"
        with chromium(playwright, FLAG.format(server.base_url), trust) as browser:
            yield browser

    def test_through_the_relay(self, browser: Browser, server: httpx.Client, wire: Machines) -> None:
        page_port = server.base_url.port
        assert page_port
        wire.set(Conditions(udp=False, tcp=(TLS_PORT, page_port)))
        assert succeeded(lambda: first_sound(browser, server, "relay", RELAYED)) == RUNS
        assert not wire.set(Conditions())["down"]["passed udp"]


class TestServerWithoutUdp:
    """As on a Hugging Face Space: no UDP comes to the server, so it goes through the relay itself."""

    @pytest.fixture(scope="class")
    def server(self, machines: Machines, relay: Relay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
        urls = ",".join(map(relay.url, ("udp", "tcp")))
        turn = {"VOXRTC_TURN": urls, "VOXRTC_TURN_KEY": SECRET, "VOXRTC_RELAY": "1"}
        with product(machines, tmp_path_factory.mktemp("server"), **turn) as client:
            yield client

    def test_through_the_relay(self, browser: Browser, server: httpx.Client, wire: Machines) -> None:
        wire.set(Conditions(udp=False), "server")
        assert succeeded(lambda: first_sound(browser, server, "relay", RELAYED)) == RUNS
        assert wire.set(Conditions())["down"]["passed udp"], "the person has UDP"

    def test_nor_has_the_person(self, browser: Browser, server: httpx.Client, wire: Machines) -> None:
        """The relay's address for UDP leads nowhere: nobody waits until a browser gives it up."""
        wire.set(Conditions(udp=False), "server")
        wire.set(Conditions(udp=False))
        assert succeeded(lambda: first_sound(browser, server, "relay", RELAYED)) == RUNS
        assert not wire.set(Conditions())["down"]["passed udp"]

    def test_where_no_relay_is_reached(self, browser: Browser, server: httpx.Client, wire: Machines) -> None:
        """Both sides wait for it before they go another way. Who has UDP is not told to look for a fault at home."""
        wire.set(Conditions(udp=False), "server")
        wire.set(Conditions(cut=True), "relay")
        assert succeeded(lambda: first_sound(browser, server, "tunnel", "This server gets no UDP", 5_000)) == RUNS
