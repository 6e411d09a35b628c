"""Several media processes' figures as if they were one's."""

from __future__ import annotations

import msgspec

from tests.api.test_metrics import MEDIA
from voxrtc.chat.sums import added
from voxrtc.messages.media import MediaStats
from voxrtc.recent import Latency
from voxrtc.stalls import Stood


def test_nothing_is_left_out() -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(MediaStats)}
    assert all(getattr(MEDIA, name) not in (default, None, [], {}) for name, default in defaults.items()), "nor in this test"
    assert added([MEDIA]) == MEDIA


def test_two_are_one() -> None:
    (spoke,) = MEDIA.models.values()
    slow = msgspec.structs.replace(spoke, ttfa=Latency(1, 500.0, 500.0), turn=Latency())
    two = msgspec.structs.replace(MEDIA, models={"csm": spoke, "tone": slow}, talking=["csm"])
    both = added([MEDIA, two])
    assert (both.peers, both.calls, both.underruns, both.tasks, both.kept, both.stood) == (4, 10, 4, 18, 2, Stood(6, 3.0))
    assert (both.playing, both.talking, len(both.networks)) == (2 * MEDIA.playing, ["csm", "tone"], 4)
    tone = both.models["tone"]
    assert both.models["csm"] == spoke
    assert (tone.responses, tone.underruns) == (6, 4)
    assert tone.ttfa == Latency(4, 200.0, 500.0), "about"
    assert tone.turn == spoke.turn and sum(tone.first_sounds.counts) == 2
