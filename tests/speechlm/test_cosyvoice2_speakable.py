"""CosyVoice 2 is given words for what is written in digits and signs, and is told alike however much of the text is there."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrtc.speechlm.cosyvoice2.speakable import MOST, speakable

pytest.importorskip("wetext")
WORDS = [
    "the", "train,", "at", "10:30", "p.m.", "No.", "5", "$5.20", "“No.”", "Dr.", "Smith", "[laughter]", "<strong>3</strong>",
    "我有3只猫，", "今天。", "3月4日に", "3명", "x@y.com", "😀", "1,234", "²", "9" * 30, "…",
]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("I have 3 cats, and 10 dogs.", "I have three cats, and ten dogs."),
        ("On Mar 3, 2025 at 10:30 we met.", "On the third of march, twenty twenty five at ten thirty we met."),
        ("It was Dr. Smith who paid $5 for 20%.", "It was doctor Smith who paid five dollars for twenty percent."),
        ("No. Not at all.", "No. Not at all."),
        ("It is warm.\n5 men came.", "It is warm.\nfive men came."),
        ("[laughter] <strong>5</strong> of them [breath]", "[laughter] <strong>five</strong> of them [breath]"),
        ("我有3只猫，花了￥12.50。", "我有三只猫，花了十二点五零元。"),
        ("会议在2025年3月4日。", "会议在二零二五年三月四日。"),
        ("3月4日に10人が来た。", "三月四日に十人が来た。"),
        ("사람 3명이 왔다.", "사람 3명이 왔다."),
        ("Nothing to do here, really.", "Nothing to do here, really."),
        ("", ""),
    ],
)
def test_numbers_become_words(written: str, said: str) -> None:
    assert speakable(written, final=True).text == said


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=20), st.sampled_from([" ", "  ", "\n", ""]), st.data())
def test_what_is_known_stays_and_knows_what_it_is_said_for(words: list[str], blank: str, data: st.DataObject) -> None:
    text = blank.join(words)
    whole = speakable(text, final=True)
    early = speakable(text[: data.draw(st.integers(0, len(text)))], final=False)
    assert whole.text.startswith(early.text) and whole.stretches[: len(early.stretches)] == early.stretches
    assert all(len(text[each.begin : each.end].split()) <= MOST for each in whole.stretches)
    assert [whole.written(end) for end in whole.ends] == [each.end for each in whole.stretches]
    places = [whole.written(end) for end in range(len(whole.text) + 1)]
    assert all(a <= b for a, b in pairwise(places)) and places[0] == 0 and places[-1] == len(text)
    if not any(character.isdigit() or character in "$@." for character in text):
        assert whole.text == text
