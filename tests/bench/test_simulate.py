"""The simulator: simple cases by hand, and that it says the same twice."""

from __future__ import annotations

import json

import pytest

from voxrtc.bench.simulate import TABLES, Simulation, Table, arrivals, limit, main
from voxrtc.engine.scheduler import POLICIES

ROUND = Table("by hand", 10, 2, 1, 4, (0.01, 0.0, 0.001), (0.02, 0.0, 0.0), prompt=20)


@pytest.mark.parametrize(("policy", "first"), [("fifo", 4), ("playout", 1)])
def test_one_stream_alone_by_hand(policy: str, first: int) -> None:
    """Prefill and first frame 0.03 s, a frame 0.01 s, a call 0.02 s; the first chunk fills a lookahead of 2."""
    outcome = Simulation(ROUND, POLICIES[policy], [(1.0, 30)]).run()
    frames = 2 + first
    assert outcome.ttfa == [pytest.approx(0.03 + (frames - 1) * 0.01 + 0.02)]
    assert (outcome.viable, outcome.done, outcome.unserved) == (1.0, 1, 0)


def test_a_machine_that_is_too_slow_stalls() -> None:
    slow = Table("by hand", 10, 0, 1, 4, (0.15, 0.0, 0.0), (0.01, 0.0, 0.0))
    outcome = Simulation(slow, POLICIES["fifo"], [(0.0, 40)]).run()
    assert outcome.viable == 0.0 and outcome.done == 1
    assert sum(outcome.stalls) == pytest.approx(40 * 0.15 - 4 * 0.15 - 3.6, abs=0.1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bursts", [False, True])
def test_everyone_is_served_in_the_end(policy: str, bursts: bool) -> None:
    table = TABLES["lark"]
    come = arrivals(6.0, 10.0, table, seed=1, bursts=bursts)
    outcome = Simulation(table, POLICIES[policy], come).run()
    assert outcome.done == len(come) and outcome.unserved == 0
    again = Simulation(table, POLICIES[policy], arrivals(6.0, 10.0, table, seed=1, bursts=bursts)).run()
    assert again == outcome


def test_playout_beats_fifo_when_the_machine_is_full() -> None:
    """Not in a figure of a machine, but in the policy: same arrivals, same costs."""
    table = TABLES["orpheus-h100"]
    come = arrivals(10.0, 40.0, table, seed=0)
    fifo, playout = (Simulation(table, POLICIES[policy], come).run() for policy in ("fifo", "playout"))
    assert playout.viable == 1.0 > fifo.viable
    assert playout.quantile(0.5) < fifo.quantile(0.5)


def test_the_limit_by_hand() -> None:
    """64 slots, a step of 0.01 s and 1 ms for each of the 20 prompt tokens of a stream, which has 52.5 frames on average."""
    assert limit(ROUND) == pytest.approx(64 / (0.01 + 0.001 * 64 * 20 / 52.5) / 52.5)


@pytest.mark.parametrize("name", TABLES)
def test_no_policy_gets_beyond_the_limit(name: str) -> None:
    table = TABLES[name]
    come = arrivals(1.2 * limit(table), 20.0, table, seed=0)
    assert not Simulation(table, POLICIES["playout"], come).run(40.0).good


def test_the_command_answers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--table", "qwen3-tts-h100", "--seconds", "2", "--json"])
    results = json.loads(capsys.readouterr().out)
    assert results["qwen3-tts-h100"].keys() == {"fifo", "two_phase", "playout", "one_at_a_time", "limit"}
