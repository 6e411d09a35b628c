"""What engines' processes are started with."""

from __future__ import annotations

import pytest

from voxrtc.cards import read_card
from voxrtc.processes import EngineProcesses
from voxrtc.settings import ROOT, Settings
from voxrtc.supervisor import Child, Supervisor


class Nursery(Supervisor):
    """Starts nobody."""

    def start(self, child: Child) -> None:
        self.children[child.name] = child


@pytest.mark.parametrize(("cache", "set_by_hand", "given"), [(0.5, 0, "0.500000"), (0, 0, "0.0"), (0.5, 2, "2.0")])
def test_a_cache_is_bounded_unless_a_person_has_set_it(cache: float, set_by_hand: float, given: str) -> None:
    cards = {"lark": read_card(ROOT / "models", "lark")}
    nursery = Nursery()
    processes = EngineProcesses(nursery, Settings(kv_memory=set_by_hand), cards, {"lark": "ipc://nowhere"})
    processes.start("lark", lambda: False, cache)
    environment = nursery.children["lark engine"].environment
    assert (environment["VOXRTC_KV_MEMORY"], environment["VOXRTC_MODEL"]) == (given, "lark")
