"""A STUN server that says nothing holds no call up."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.network.conftest import RUNS, Plain, product
from tests.network.machines import NOWHERE, Machines

HOLE = f"stun:{NOWHERE}:3478"
ANSWERED_WITHIN = 1_000  # ms


@pytest.fixture(scope="module")
def server(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The product, which was told of such a one."""
    with product(machines, tmp_path_factory.mktemp("server"), VOXRTC_STUN=HOLE) as client:
        yield client


def test_a_silent_stun_server_costs_nobody_a_second(plain: Plain) -> None:
    """Neither ours nor the browser's (fastrtc 1183)."""
    times = [plain.call(iceServers=[{"urls": HOLE}]) for _ in range(RUNS)]
    print("answered and connected, ms:", *(f"{each['answered']:.0f} {each['opened']:.0f}" for each in times), sep="\n")
    assert all(each["answered"] < ANSWERED_WITHIN for each in times)
