"""Steps that begin before the last is read, filled up and repeated from recordings: whoever joins, stops, leaves or is
preempted, everyone says what they would say alone on a CPU."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.toy import Bench, Toy
from tests.pretend import device, pretended
from tests.tape import Tape
from voxrtc.engine.graphs import Recording
from voxrtc.engine.worker import Step, Task
from voxrtc.messages.engine import Cancel, Ended, Failed
from voxrtc.speechlm.base import Prompt, Utterance

MANNERS = ({}, {"temperature": 0.9, "top_k": 20, "seed": 7, "repetition_penalty": 1.2}, {"temperature": 1.5, "seed": 3})
POISON = "ab!"


class Early(Toy):
    """It stops of itself, a few frames before its limit: so a step more is under way when that is found."""

    def preprocess(self, utterance: Utterance) -> Prompt:
        prompt = super().preprocess(utterance)
        return replace(prompt, max_frames=prompt.max_frames + 3)


class Watched(Bench):
    """Knows for which streams a frame was asked for, and how often steps came of recordings."""

    asked = 0
    recorded = 0
    filled = 0  # steps of three streams, for which there is no recording but that of four

    def watch(self) -> Watched:
        launch = self.worker.launch

        def watched(tasks: list[Task]) -> Step:
            step = launch(tasks)
            assert not any(step.parts), "it failed as a whole, and was run again stream by stream"
            self.asked += sum(task.samples for task in tasks)
            self.recorded += step.recorded
            self.filled += step.recorded and len(tasks) == 3
            return step

        self.worker.launch = watched  # type: ignore[method-assign]
        return self


def alone(model: Toy, text: str, settings: dict) -> list[list[int]]:
    bench = Bench(slots=1, model=model)
    bench.speak("a", text, **settings)
    bench.run()
    return bench.codes["a"]


def history(bench: Bench, seed: int) -> tuple[list[tuple[str, dict]], set[int]]:
    """Who spoke what, and who was cancelled meanwhile."""
    chance, spoken, cancelled = random.Random(seed), [], set()
    for i in range(8):
        text = POISON if i == 4 else "".join(chance.choices("abcdef", k=chance.randint(2, 7)))
        spoken.append((text, chance.choice(MANNERS)))
        bench.speak(str(i), text, **spoken[-1][1])
        for _ in range(chance.randint(0, 9)):
            bench.step()
        if i % 3 == 2:
            cancelled.add(victim := chance.randint(0, i))
            bench.send(Cancel(stream=str(victim)), str(victim))
    bench.run()
    return spoken, cancelled


@pytest.mark.parametrize("seed", [4, 8])
def test_ahead_and_from_recordings_everyone_says_what_they_say_alone(seed: int) -> None:
    with pretended():
        tape, model = Tape(), Early(device())
        bench = Watched(slots=4, pages=6, page_size=8, model=model, backend=tape.backend, recorder=tape.record).watch()
        assert bench.worker.lag == 1
        spoken, cancelled = history(bench, seed)
    host = Early()
    for i, (text, settings) in enumerate(spoken):
        codes, last = bench.codes.get(str(i), []), bench.replies[str(i)][-1]
        if text == POISON and i not in cancelled:
            assert not codes and isinstance(last, Failed)
            continue
        expected = alone(host, text, settings)
        ended = isinstance(last, Ended) and last.reason == "done"
        assert ended or i in cancelled
        assert codes == (expected if ended else expected[: len(codes)])
    assert not bench.worker.cache.used and sorted(bench.engine._slots) == [0, 1, 2, 3]
    assert bench.asked > sum(map(len, bench.codes.values())), "frames of streams that had stopped or left were dropped"
    assert bench.engine.counters.preempted, "somebody gave up pages"
    assert tape.played > bench.worker.graphs.count and not tape.impossible and bench.recorded > 15 and bench.filled


def test_what_four_recorded_serves_three() -> None:
    """They all begin at once, and end one by one."""
    with pretended():
        tape = Tape()
        bench = Watched(slots=4, page_size=8, model=Early(device()), backend=tape.backend, recorder=tape.record).watch()
        for i, settings in enumerate([*MANNERS, {}]):
            bench.speak(str(i), "abcd"[: i + 1], **settings)
        bench.run()
    for i, settings in enumerate([*MANNERS, {}]):
        assert bench.codes[str(i)] == alone(Early(), "abcd"[: i + 1], settings)
    assert bench.filled


def test_what_samples_is_not_recorded_where_forward_cannot_be() -> None:
    """It reads what that left, which would lie elsewhere each time."""
    tries: list[object] = []
    with pretended():
        tape, model = Tape(), Early(device())

        def refuse_the_first(work: Callable[[], Any]) -> Recording:
            tries.append(work)
            if len(tries) == 1:
                raise RuntimeError("operation not permitted when stream is capturing")
            return tape.record(work)

        bench = Bench(slots=1, model=model, backend=tape.backend, recorder=refuse_the_first)
        bench.speak("a", "abcd")
        bench.run()
    assert bench.codes["a"] == alone(Early(), "abcd", {}) and len(tries) == 1
