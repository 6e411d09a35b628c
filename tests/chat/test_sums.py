"""Several media processes' figures as if they were one's."""

from __future__ import annotations

import msgspec

from tests.api.test_metrics import times
from voxrtc.chat.sums import added
from voxrtc.messages.calls import Network, Spoke
from voxrtc.messages.media import MediaStats
from voxrtc.recent import Latency
from voxrtc.stalls import Stood

SPOKE = Spoke(
    responses=3,
    underruns=2,
    ttfa=Latency(3, 100.0, 300.0),
    turn=Latency(1, 700.0, 700.0),
    first_sounds=times(0.1),
    answers=times(0.8),
)
ONE = MediaStats(
    call="one",
    peers=2,
    calls=5,
    underruns=2,
    tasks=9,
    models={"lark": SPOKE},
    playing=["a"],
    networks=[Network(rtt_ms=20.0)],
    talking=["lark"],
    kept=1,
    stood=Stood(3, 1.5),
)


def test_nothing_is_left_out() -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(MediaStats)}
    assert all(getattr(ONE, name) not in (default, None, [], {}) for name, default in defaults.items()), "nor in this test"
    assert added([ONE]) == ONE


def test_two_are_one() -> None:
    slow = msgspec.structs.replace(SPOKE, ttfa=Latency(1, 500.0, 500.0), turn=Latency())
    two = msgspec.structs.replace(ONE, models={"csm": SPOKE, "lark": slow}, talking=["csm"])
    both = added([ONE, two])
    assert (both.peers, both.calls, both.underruns, both.tasks, both.kept, both.stood) == (4, 10, 4, 18, 2, Stood(6, 3.0))
    assert (both.playing, both.talking, len(both.networks)) == (["a", "a"], ["csm", "lark"], 2)
    lark = both.models["lark"]
    assert both.models["csm"] == SPOKE
    assert (lark.responses, lark.underruns) == (6, 4)
    assert lark.ttfa == Latency(4, 200.0, 500.0), "about"
    assert lark.turn == SPOKE.turn and sum(lark.first_sounds.counts) == 2
