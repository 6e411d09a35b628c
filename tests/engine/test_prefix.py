"""Prompts whose first positions are known: they go into the cache as they are, and are preempted like all others."""

from __future__ import annotations

import dataclasses

import pytest

from tests.engine.test_engine import alone
from tests.engine.toy import Bench, Toy
from voxrtc.speechlm.base import Prefix, Prompt, Utterance


class Primed(Toy):
    """A toy whose every prompt begins with what it knows by heart: the cache's contents for “hello ”."""

    def __init__(self) -> None:
        super().__init__()
        bench = Bench(page_size=16)
        bench.speak("a", "hello ")
        while not bench.codes:
            bench.step()
        cache, page = bench.worker.cache, bench.worker.cache.table[bench.engine.streams["a"].slot, 0]
        self.prefix = Prefix(*(kind[:, page, :, :6].transpose(1, 2).clone() for kind in (cache.keys, cache.values)))

    def preprocess(self, utterance: Utterance) -> Prompt:
        return dataclasses.replace(super().preprocess(Utterance("hello " + utterance.text)), prefix=self.prefix)


@pytest.mark.parametrize("page_size", [4, 8, 128])
def test_a_prompts_known_beginning_is_not_computed_again(page_size: int) -> None:
    bench = Bench(page_size=page_size, model=Primed())
    prefilled: list[int] = []
    launch = bench.worker.launch
    bench.worker.launch = lambda tasks: prefilled.extend(t.count for t in tasks if t.count > 1) or launch(tasks)
    for text in ("world", "you"):
        bench.speak(text, text)
    bench.run()
    assert prefilled == [5, 3]
    assert bench.codes == {text: alone("hello " + text) for text in ("world", "you")}


def test_a_prompts_known_beginning_gives_way_and_comes_back_with_the_rest() -> None:
    texts = ("wide world", "dear friend", "everyone")
    bench = Bench(pages=13, page_size=8, model=Primed())  # 7 to 9 each at their longest
    for text in texts:
        bench.speak(text, text)
    bench.run()
    assert bench.engine.counters.preempted
    assert bench.codes == {text: alone("hello " + text) for text in texts}
