"""What shows when the engine's plans do not hold, and what it then does: it lets fewer in, and they begin with more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_scheduler import MACHINE, VIEW
from tests.engine.toy import Bench
from voxrtc.bench.simulate import TABLES, Simulation, arrivals
from voxrtc.engine import caution as module
from voxrtc.engine.caution import EVERY, FADES, MOST, Caution
from voxrtc.engine.running import Running
from voxrtc.engine.scheduler import POLICIES, playout
from voxrtc.messages.engine import EngineReply, GetStats, Playout, Stats


@given(chunks=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 2), st.floats(0, 2)), max_size=40))
def test_it_is_one_and_more_and_bounded(chunks: list[tuple[float, float, float]]) -> None:
    caution, now = Caution(), 0.0
    for pause, slack, reserve in chunks:
        now += pause
        before = caution.at(now)
        caution.handed_over(now, slack, reserve)
        assert 1 <= before <= caution.at(now) <= MOST
        assert slack < reserve or caution.at(now) == before, "who had enough in hand is no cause"


def test_what_holds_up_many_counts_once_and_is_forgotten() -> None:
    caution = Caution()
    for stream in range(50):
        caution.handed_over(10 + stream / 1000, 0.0, 0.2)
    raised = caution.at(10.05)
    caution.handed_over(10 + EVERY, 0.0, 0.2)
    assert 1 < raised < caution.at(10 + EVERY)
    assert caution.at(10 + 8 * FADES) == pytest.approx(1, abs=0.01)


def test_with_caution_fewer_are_let_in_and_begin_with_more() -> None:
    playing = [replace(VIEW, id=f"p{i}", slack=1.0) for i in range(20)]
    queue = [replace(VIEW, id=f"q{i:02}", arrived=1 + i, admitted=False, pages=0) for i in range(50)]
    roomy = replace(MACHINE, slots=99)

    def let_in(factor: float) -> int:
        return len(playout(9, [*playing, *queue], replace(roomy, caution=factor)).admit)

    def first(factor: float) -> int:
        """Frames with which one begins."""
        machine = replace(roomy, caution=factor)
        return next(
            pending
            for pending in itertools.count(16)
            if ("a", pending) in playout(0.0, [replace(VIEW, pending=pending, ripe=pending - 15), *playing], machine).detokenize
        )

    assert let_in(1.0) > let_in(1.2) > let_in(1.5) > 0
    assert first(1.0) < first(1.5) < first(2.5)


def caution(bench: Bench, stream: str, step: float) -> float:
    """After the first sounds of a stream of which, from the first one on, each step took so many seconds."""
    while not (playing := bench.engine.streams[stream]).chunks:
        bench.step()
    bench.send(Playout(stream=stream, played=0.0, at=bench.now, running=True), stream)
    while playing.chunks < 3 and stream in bench.engine.streams:
        bench.now += step
        bench.engine.run_once()
    told: list[EngineReply] = []
    bench.engine.submit(GetStats(call=1), told.append)
    bench.engine.run_once()
    (stats,) = told
    assert isinstance(stats, Stats)
    return stats.caution


def test_a_chunk_that_comes_late_makes_an_engine_careful() -> None:
    for step, careful in ((0.001, False), (0.3, True)):
        bench = Bench()
        bench.speak("a", "a long text indeed")
        bench.step()
        assert (caution(bench, "a", step) > 1) is careful


@pytest.mark.parametrize("why", ["background", "text"])
def test_who_is_short_for_another_reason_makes_nobody_careful(why: str) -> None:
    bench = Bench()
    bench.speak("a", "a long text indeed")
    bench.step()
    stream = bench.engine.streams["a"]
    if why == "text":
        stream.running = Running("")
    else:
        stream.request = msgspec.structs.replace(stream.request, background=True)
    assert caution(bench, "a", 0.3) == 1


def disturbed(seed: int) -> Callable[[float], float]:
    """Others take the machine now and then: for 50 ms or so, all takes three times as long."""
    rng = random.Random(seed)
    ends, busy = itertools.accumulate(rng.expovariate(1 / mean) for mean in itertools.cycle((0.2, 0.05))), True
    until = 0.0

    def slower(now: float) -> float:
        nonlocal until, busy
        while now >= until:
            until, busy = next(ends), not busy
        return 3.0 if busy else 1.0

    return slower


def test_a_disturbed_machine_keeps_its_word_to_those_it_lets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """More come than it could serve if it had all of its time. Heedless, it lets in as many as ever, and nearly all run dry."""

    def run(more: float) -> list[bool]:
        """Whether they never ran dry, of those who were let in once that had shown, and are done."""
        monkeypatch.setattr(module, "MORE", more)
        table = TABLES["orpheus-h100"]
        simulation = Simulation(table, POLICIES["playout"], arrivals(14.0, 30.0, table, seed=0), slower=disturbed(0))
        simulation.advance(12.0)
        before = {name for name, stream in simulation._live.items() if stream.admitted}
        simulation._over.clear()
        simulation.advance(30.0)
        return [not stream.stalls for stream in simulation._over if stream.id not in before]

    careful, heedless = run(module.MORE), run(0.0)
    assert sum(heedless) < 0.3 * len(heedless)
    assert sum(careful) >= 0.95 * len(careful)
    assert len(careful) > len(heedless)
