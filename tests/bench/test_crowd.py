"""The bench of crowds, with an engine of tones: what it reports."""

from __future__ import annotations

from typing import cast

import pytest

from tests.fake_engine import ToneTransport
from voxrtc.bench.crowd import header, row, turn
from voxrtc.bench.figures import Usage
from voxrtc.bench.systems import Server
from voxrtc.engine.client import EngineClient
from voxrtc.messages.engine import Generate


class Tones:
    """A `Server` whose process is not there to be measured."""

    def __init__(self, transport: ToneTransport) -> None:
        self.client = EngineClient(transport)

    async def usage(self) -> Usage:
        return Usage(0.0, 100.0, 0.0, None)


@pytest.mark.anyio
async def test_a_turn_has_a_crowd_and_somebody_for_the_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.bench.crowd.PAUSE", 0.05)
    monkeypatch.setattr("voxrtc.bench.crowd.SENTENCE", 0.1)
    tone = ToneTransport(speed=3.0)
    run = await turn(cast(Server, Tones(tone)), "two_phase", listeners=3, seconds=2.0, seed=0)
    told = run.report()
    assert tone.policy == "two_phase" and told["started"] >= 1 and told["people"] >= 1 and told["listeners"] == 3
    assert 0 <= told["viable"] <= 1 and 0 < told["people_p50_ttfa"] <= told["people_p90_ttfa"]
    kinds = {request.background for request in tone.requests if isinstance(request, Generate)}
    assert kinds == {True, False} and all(task.done() for task in tone.tasks.values())
    assert len(row(run)) == len(header())
