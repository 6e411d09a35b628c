"""The engine tells when its text is spoken: by words, where the model knows, else by pieces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.toy import Bench, Toy
from voxrtc.engine.words import Words
from voxrtc.messages.engine import Chunk, Spoken
from voxrtc.speechlm.base import Prompt, Utterance, Word

FRAME = 1 / Toy.frame_rate


class Spelling(Toy):
    """Says a letter in three frames, and knows it: a letter is a unit, and a word."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def preprocess(self, utterance: Utterance) -> Prompt:
        self.made = 0  # of the one stream that there is
        letters = tuple(Word(i, i + 1, i + 1) for i in range(len(utterance.text)))
        return replace(super().preprocess(utterance), words=letters)

    def passes(self, frame: Tensor) -> int:
        self.made += 1
        return int(self.made % 3 == 0)


def told(bench: Bench) -> list[Spoken]:
    return [spoken for reply in bench.replies["a"] if isinstance(reply, Chunk) for spoken in reply.spoken]


def test_each_word_is_told_with_its_time() -> None:
    bench = Bench(model=Spelling())
    bench.speak("a", "hello")
    bench.run()
    *letters, rest = told(bench)
    assert [letter.characters for letter in letters] == [1, 2, 3, 4, 5]
    assert [letter.begin for letter in letters] == pytest.approx([3 * i * FRAME for i in range(5)])
    assert [letter.end for letter in letters] == pytest.approx([3 * (i + 1) * FRAME for i in range(5)])
    assert (rest.begin, rest.end, rest.characters) == pytest.approx((15 * FRAME, 15 * FRAME, 5))


def test_a_word_is_told_before_its_sound_is_over() -> None:
    bench = Bench(model=Spelling())
    bench.speak("a", "hello there everybody")
    bench.run()
    made = 0.0
    for reply in bench.replies["a"]:
        if isinstance(reply, Chunk):
            made += len(reply.pcm) / 2 / reply.sample_rate
            ends = [spoken.end for spoken in told_until(bench, reply)]
            assert ends and ends[-1] + 3 * FRAME > made - 1e-9, "all letters whose sound is handed over are told"


def told_until(bench: Bench, chunk: Chunk) -> list[Spoken]:
    chunks = [reply for reply in bench.replies["a"] if isinstance(reply, Chunk) and reply.index <= chunk.index]
    return [spoken for each in chunks for spoken in each.spoken]


def test_without_words_the_pieces_are_told_in_characters_of_the_text() -> None:
    bench = Bench()
    bench.speak("a", "one |three |x")
    bench.run()
    frames = [0, 12, 30, 33]
    assert [each.characters for each in told(bench)] == [4, 11, 13]
    assert [(each.begin, each.end) for each in told(bench)] == [
        pytest.approx((a * FRAME, b * FRAME)) for a, b in pairwise(frames)
    ]


@settings(max_examples=60)
@given(st.data())
def test_words_are_told_once_and_in_order(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 3), max_size=8))
    bounds = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    units = [Word(a, b, 2 * b) for a, b in pairwise(bounds)]
    words, frames, found = Words(units, 99, frame_rate=10.0, begin=5.0, before=100), 0, []
    for unit in range(bounds[-1]):
        for _ in range(data.draw(st.integers(0, 3))):
            frames += 1
            words.passed(frames, 0)
        frames += 1
        words.passed(frames, 1)
        if data.draw(st.booleans()):
            found += words.news()
            assert len(found) == sum(word.end <= unit + 1 for word in units)
    found += words.news()
    assert not words.news()
    rest = words.rest(5.0 + frames / 10 + 0.3)
    assert [each.characters for each in found] == [100 + word.characters for word in units]
    assert all(
        a.end <= b.begin + 1e-9 and b.begin < b.end
        for a, b in zip([Spoken(begin=0, end=5, characters=0), *found], found, strict=False)
    )
    assert (rest.begin, rest.end) == pytest.approx((5.0 + frames / 10, 5.3 + frames / 10)) and rest.characters == 199
