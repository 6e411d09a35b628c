"""Models that remember: a later piece's prompt is made once the earlier ones are spoken, of what was said in them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import pytest
import torch

from tests.engine.toy import Bench, Inline, Toy
from voxrtc.messages.engine import Cancel, Ended
from voxrtc.speechlm.base import Prompt, Turn, Utterance

TEXT = "one|two|three|four"
COMPANY = "somebody|else"


class Remembering(Toy):
    """Its prompt begins with a byte for each turn it remembers, which every code of that turn has a part in."""

    remembers = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Utterance] = []

    def preprocess(self, utterance: Utterance) -> Prompt:
        self.asked.append(utterance)
        heard = [int((turn.frames * torch.arange(1, turn.frames.numel() + 1).view(-1, 2)).sum()) for turn in utterance.before]
        data = torch.tensor([65 + value % 26 for value in heard] + list(utterance.text.encode()))
        return Prompt(length=len(data), max_frames=3 * len(data), data=data)


def spoken(model: Toy, *others: str, lag: int = 0) -> Bench:
    bench = Bench(model=model, slots=2)
    bench.worker.lag = lag
    bench.speak("a", TEXT, temperature=0.8, seed=3)
    for i, text in enumerate(others):
        bench.step()
        bench.speak(f"other {i}", text, seed=i)
    bench.run()
    return bench


def pieces(codes: list[list[int]], before: tuple[Turn, ...]) -> list[list[list[int]]]:
    """The frames cut where the turns end."""
    parts, at = [], 0
    for turn in before:
        parts.append(codes[at : at + len(turn.frames)])
        at += len(turn.frames)
    return parts


def test_each_piece_is_told_of_the_earlier_ones() -> None:
    model = Remembering()
    bench = spoken(model)
    assert [asked.text for asked in model.asked] == TEXT.split("|")
    assert [[turn.text for turn in asked.before] for asked in model.asked] == [
        [],
        ["one"],
        ["one", "two"],
        ["one", "two", "three"],
    ]
    last = model.asked[-1].before
    assert [turn.frames.tolist() for turn in last] == pieces(bench.codes["a"], last)
    made = [len(turn.frames) for turn in last]
    assert made == [9, 12, 21], "three a position, and a position for each turn"
    assert bench.replies["a"][-1] == Ended(stream="a", reason="done", frames=sum(made) + 3 * (3 + len("four")))


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_what_is_remembered_does_not_depend_on_company(lag: int) -> None:
    alone, together = spoken(Remembering()), spoken(Remembering(), COMPANY, TEXT, "x", lag=lag)
    assert together.codes["a"] == alone.codes["a"]


def test_memory_matters() -> None:
    assert spoken(Remembering()).codes["a"][9:] != spoken(Toy()).codes["a"][9:]


def test_only_the_latest_is_kept_when_it_could_not_all_be_used() -> None:
    model = Remembering()
    model.cache = replace(model.cache, positions=30)
    spoken(model)
    assert [[turn.text for turn in asked.before] for asked in model.asked] == [[], ["one"], ["one", "two"], ["three"]]


def test_a_stream_can_be_cancelled_between_its_pieces() -> None:
    """When its next prompt is still being made."""
    jobs: list = []

    class Later(Inline):
        def submit(self, job, /, *args, **kwargs):  # type: ignore[no-untyped-def]
            jobs.append(super().submit(job, *args, **kwargs) if not jobs else Future())
            return jobs[-1]

    bench = Bench(model=Remembering())
    bench.engine._prompts.executor = Later()
    bench.speak("a", TEXT)
    bench.run()
    assert len(jobs) == 2 and len(bench.codes["a"]) == 9, "one piece is spoken, the next not ready"
    bench.send(Cancel(stream="a"), "a")
    bench.run()
    ended = bench.replies["a"][-1]
    assert isinstance(ended, Ended) and ended.reason == "cancelled"
    jobs[-1].set_result(None)  # comes too late
    bench.run()
    assert bench.worker.cache.used == 0 and not bench.engine.streams


def test_who_does_not_remember_is_told_nothing_and_keeps_nothing() -> None:
    asked: list[Utterance] = []
    model = Toy()
    preprocess = model.preprocess
    model.preprocess = lambda utterance: asked.append(utterance) or preprocess(utterance)  # type: ignore[method-assign]
    bench = Bench(model=model)
    bench.speak("a", TEXT)
    while not (inside := [s for s in bench.engine.streams.values() if s.piece and s.piece.made > 2]):
        bench.step()
    assert inside[0].piece and inside[0].piece.kept is None
    bench.run()
    assert not any(utterance.before for utterance in asked) and not inside[0].spoken
