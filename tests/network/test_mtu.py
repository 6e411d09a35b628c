"""A path whose packets may have 1280 bytes, as in many a VPN, and that tells nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.network.conditions import Conditions
from tests.network.conftest import Plain
from tests.network.machines import Machines

MTU = 1280
TEXT = "All work and no play makes a long text. " * 500


@pytest.fixture
def narrow(wire: Machines) -> Iterator[Machines]:
    """The person's own device knows of it, so TCP does; the server learns nothing."""
    wire.person.limit(MTU)
    wire.set(Conditions(mtu=MTU))
    yield wire
    wire.person.limit(1500)


def test_the_data_channel_does_not_stall(narrow: Machines, plain: Plain) -> None:
    """Long messages go to the server and come back (aiortc PR 1441)."""
    plain.call()
    plain.page.evaluate("text => plain.write(text)", TEXT)
    plain.page.wait_for_function("text => plain.events.some(({ item }) => item?.content?.[0].text === text)", arg=TEXT)
    assert not narrow.set(Conditions(mtu=MTU))["down"]["too large"]
