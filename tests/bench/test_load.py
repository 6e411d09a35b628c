"""Listeners on an engine that only makes tones: what they write down, and when a run is given up."""

from __future__ import annotations

import pytest

from tests.fake_engine import ToneTransport
from voxrtc.bench.figures import Figures, Usage, figures, header, row
from voxrtc.bench.load import hopeless, listen, passed
from voxrtc.bench.workload import Request
from voxrtc.crowd.hearing import Hearing
from voxrtc.engine.client import EngineClient
from voxrtc.messages.engine import Cancel, Generate, Playout

USAGE = Usage(0.0, 100.0, 7.0, None)


def judged(hearings: list[Hearing]) -> Figures:
    return figures(1.0, hearings, 10.0, USAGE, Usage(1.0, 120.0, 9.0, 0.1))


def heard(scheduled: float, first: float, *later: float) -> Hearing:
    """A second of sound at `first` and at each of `later`."""
    hearing = Hearing(scheduled)
    for at in (first, *later):
        hearing.hear(at, 1.0)
    hearing.ended = hearing.arrivals[-1][0]
    return hearing


@pytest.mark.anyio
async def test_everyone_is_heard_to_the_end_and_reports_a_clock() -> None:
    transport = ToneTransport()
    client = EngineClient(transport)
    hearings = await listen(client, [Request(0.0, "one two three"), Request(0.05, "four"), Request(0.05, "fail")])
    assert [hearing.player.sound for hearing in hearings] == pytest.approx([0.3, 0.1, 0.0])
    assert [hearing.failure for hearing in hearings] == ["", "", "engine_error"]
    requests = [request for request in transport.requests if isinstance(request, Generate)]
    assert [request.accepted for request in requests] == [hearing.scheduled for hearing in hearings]
    assert sum(isinstance(request, Playout) for request in transport.requests) == 4
    run = judged(hearings)
    assert (run.requests, run.errors, run.refused, run.unserved, run.passed) == (3, 1, 0, 0, False)
    assert run.viable_streams == run.viable_chunks == 1.0 and run.cpu_per_audio_second == pytest.approx(1 / 0.4)
    assert run.others_cpu == pytest.approx(0.2)


@pytest.mark.anyio
async def test_a_run_that_cannot_pass_is_cut_short_and_its_streams_cancelled() -> None:
    transport = ToneTransport(speed=0.5)  # half as fast as it is played: everyone stalls at once
    hearings = await listen(EngineClient(transport), [Request(float(i // 4), "word " * 100) for i in range(40)], hopeless)
    sent = [request.stream for request in transport.requests if isinstance(request, Generate)]
    cancelled = [request.stream for request in transport.requests if isinstance(request, Cancel)]
    assert 0 < len(sent) < 40 and sorted(cancelled) == sorted(sent)
    assert not passed(hearings) and judged(hearings).unserved == 40


def test_the_terms_allow_one_in_ten_late_and_one_in_a_hundred_dry() -> None:
    good, late, dry = heard(0.0, 0.4, 1.0), heard(0.0, 0.6, 1.0), heard(0.0, 0.4, 2.0)
    assert passed([good] * 89 + [late] * 10 + [dry]) and not passed([good] * 89 + [late] * 11)
    assert not passed([good] * 98 + [dry] * 2)
    run = judged([good] * 89 + [late] * 10 + [dry])
    assert run.p90_ttfa == pytest.approx(0.4) and run.p95_ttfa == pytest.approx(0.6)
    assert run.viable_streams == run.viable_chunks == 0.99 and run.largest_gap == pytest.approx(0.6)
    assert run.stall_50ms == run.stall_250ms == 0.01


def test_who_still_waits_after_the_budget_is_late() -> None:
    waiting = [Hearing(100.0)]
    assert not hopeless(waiting, 100.4) and hopeless(waiting, 100.6) and not passed(waiting)


def test_a_refusal_fails_a_run_and_is_timed() -> None:
    refused = Hearing(1.0, ended=1.02, failure="busy")
    hearings = [heard(0.0, 0.1), refused]
    assert hopeless(hearings, 0.0)
    run = judged(hearings)
    assert run.refused == 1 and run.refusal_p99_ms == pytest.approx(20.0) and run.errors == run.unserved == 0
    assert len(row(run)) == len(header())
