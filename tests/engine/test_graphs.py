"""Recording steps: when it is done, what becomes of what cannot be, and what a recording depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.engine.toy import Bench
from tests.pretend import device, pretended
from tests.tape import Tape
from voxrtc.engine.attention import sizes
from voxrtc.engine.cpu_attention import CpuAttention
from voxrtc.engine.graphs import Graphs, Recording
from voxrtc.engine.warming import warm_up
from voxrtc.engine.worker import Task
from voxrtc.messages.engine import GetStats, Stats
from voxrtc.speechlm.base import Utterance


class Noting:
    """Records like CUDA: the work is not done meanwhile, and some cannot be recorded."""

    def __init__(self) -> None:
        self.recorded = 0

    def __call__(self, work: Callable[[], Any]) -> Recording:
        self.recorded += 1
        kept: list[int] = []
        return Recording(lambda: kept.append(work()), kept)


def test_work_is_done_then_recorded_and_then_repeated_for_each_shape() -> None:
    noting, done = Noting(), []
    graphs = Graphs(noting)
    for _ in range(4):
        for key in ("one", "two"):
            graphs.run(key, lambda key=key: done.append(key) or len(done))
    assert done == ["one", "two"] * 4 and noting.recorded == graphs.count == 2
    result, repeated = graphs.run("one", lambda: 0)
    assert repeated and result == [3, 5, 7, 9], "the recorded work, and not what came with the key"


def test_what_cannot_be_recorded_is_done_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    tries = []

    def refuse(work: Callable[[], Any]) -> Recording:
        tries.append(work)
        raise RuntimeError("operation not permitted when stream is capturing")

    graphs = Graphs(refuse)
    assert [graphs.run("one", lambda n=n: n) for n in range(4)] == [(n, False) for n in range(4)]
    assert len(tries) == 1 and graphs.count == 0 and "not permitted" in caplog.text


def test_a_tape_plays_what_was_and_not_what_python_would_decide_now() -> None:
    tape, numbers, factor = Tape(), torch.tensor([1.0, 2.0]), 2.0
    recording = tape.record(lambda: (numbers * factor).cumsum(0))
    assert recording.result.tolist() == [2.0, 6.0]
    factor = 3.0
    numbers += 1
    recording.replay()
    assert recording.result.tolist() == [4.0, 10.0] and tape.played == 1


@pytest.mark.parametrize(
    ("work", "wrong"),
    [
        (lambda x: x + torch.tensor(2.0), []),
        (lambda x: x + torch.tensor([1.0, 2.0]).to(device()), ["aten::_to_copy"]),
        (lambda x: x.sum().item(), ["aten::_local_scalar_dense"]),
        (lambda x: x[x > 1], ["aten::index"]),
        (lambda x: x.cpu(), ["aten::_to_copy"]),
    ],
)
def test_a_tape_notes_what_no_graph_can_do(work: Callable[[torch.Tensor], Any], wrong: list[str]) -> None:
    with pretended():
        tape, numbers = Tape(), torch.tensor([1.0, 2.0]).to(device())
        tape.record(lambda: work(numbers))
    assert tape.impossible == wrong


def test_only_decode_steps_at_fixed_addresses_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Bench(slots=2, recorder=Tape().record).worker.graphs is None, "the CPU's attention has no fixed addresses"
    monkeypatch.setattr(CpuAttention, "fixed", True)
    worker = Bench(slots=2, recorder=Tape().record).worker
    assert worker.graphs
    prompt = worker.model.preprocess(Utterance("hello"))
    for slot in range(2):
        worker.admit(slot, prompt, worker.model.defaults, seed=0, step=0)
    for start in (0, 1, 2):
        worker.launch([Task(slot, start, 1, samples=False) for slot in range(2)])
    worker.launch([Task(0, 3, 2, samples=True), Task(1, 3, 1, samples=False)])
    assert worker.graphs.count == 0, "parts of prompts"
    for start in (5, 6):
        worker.launch([Task(0, start, 1, samples=True)])
    assert worker.graphs.count == 1, "forward; what samples reads what that left, so it comes after"
    worker.launch([Task(0, 7, 1, samples=True)])
    assert worker.graphs.count == 2, "forward and sample"


def test_warming_up_goes_through_all_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that recordings are there before anybody listens, in the model's own manner."""
    monkeypatch.setattr(CpuAttention, "fixed", True)
    bench, seen = Bench(slots=17, recorder=Noting()), []
    worker = bench.worker
    assert worker.graphs
    monkeypatch.setattr(worker.graphs, "run", lambda key, work: seen.append(key) or (work(), False))
    warm_up(bench.engine)
    for width in sizes(17):
        assert seen.count(("forward", width, 0)) >= 2, f"{width} are done once, and then recorded"


def test_how_many_steps_were_repeated_is_told() -> None:
    bench = Bench(slots=2)
    bench.speak("a", "hello")
    bench.run()
    bench.send(GetStats(call=1), "")
    bench.step()
    stats = bench.replies[""][-1]
    assert isinstance(stats, Stats) and stats.graphs == 0 and stats.lately.recorded == 0 and stats.lately.gap_ms is not None
