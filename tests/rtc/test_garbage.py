"""What closed peers leave is collected, though Python by itself hardly looks any more."""

from __future__ import annotations

import gc
import weakref

from voxrtc.rtc.garbage import PEERS, closed


class Knot:
    def __init__(self) -> None:
        self.itself = self


def test_what_closed_peers_leave_is_collected_after_a_while() -> None:
    gc.disable()
    try:
        left = [weakref.ref(Knot()) for _ in range(3)]
        assert all(each() for each in left)
        for _ in range(PEERS):
            closed()
        assert not any(each() for each in left)
    finally:
        gc.enable()
