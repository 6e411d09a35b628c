"""Which part of a text is said, where it was rewritten to be spoken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.speechlm.alignment import align, sources

WORDS = st.lists(st.text("abcXY19$%.,'é—😀", min_size=1, max_size=6), max_size=12)


@given(WORDS)
def test_what_was_not_rewritten_says_itself(words: list[str]) -> None:
    assert align(" ".join(words), words) == list(range(len(words)))


@given(WORDS, WORDS)
def test_numbers_never_fall_and_are_of_words_that_there_are(words: list[str], spoken: list[str]) -> None:
    numbers = align(" ".join(words), spoken)
    assert len(numbers) == len(spoken) and numbers == sorted(numbers)
    assert all(0 <= number < max(1, len(words)) for number in numbers)


@given(st.data())
def test_what_lies_between_two_anchors_stays_between_them(data: st.DataObject) -> None:
    """However its rewriting looks."""
    rewritten = st.lists(st.text("aeiou", min_size=1, max_size=5), min_size=1, max_size=4)
    words, spoken, expected = [], [], []
    for number in range(data.draw(st.integers(1, 6))):
        anchor = f"anchor{'bcdfgh'[number]}"
        expected += [len(words)] * 1
        words.append(anchor)
        spoken.append(anchor)
        said = data.draw(rewritten)
        expected += [len(words)] * len(said)
        words.append(data.draw(st.sampled_from(["$3.50", "10:30", "x²", "#", "ZZ"])))
        spoken += said
    assert align(" ".join(words), spoken) == expected


@pytest.mark.parametrize(
    ("text", "spoken", "numbers"),
    [
        ("I paid $5 to him", "I paid 5 dollars to him", [0, 1, 2, 2, 3, 4]),
        ("the next #5 is", "the next number 5 is", [0, 1, 2, 2, 3]),
        ("20% of 5 km", "20 percent of 5 kilometers", [0, 0, 1, 2, 3]),
        ("Dr. Who, x ≈ 3", "Doctor Who x approximately 3", [0, 1, 2, 3, 4]),
        ("see [a page](http://b.c/the) the end", "see a page the end", [0, 1, 2, 2, 4]),
        ("so 😀 what", "so what", [0, 2]),
        ("ﬁne Ｆｕｌｌ", "fine Full", [0, 1]),
    ],
)
def test_rewritten_words(text: str, spoken: str, numbers: list[int]) -> None:
    assert align(text, spoken.split()) == numbers


@given(WORDS, st.lists(WORDS.map(" ".join), max_size=5))
def test_the_sources_of_pieces_are_the_text(words: list[str], pieces: list[str]) -> None:
    text = "  ".join(words)
    assert "".join(sources(text, pieces)) == (text if pieces else "")


def test_each_piece_has_what_it_says() -> None:
    text = "# Title\nIt is $5 😀!  And `so` on…"
    assert sources(text, ["Title.", "It is 5 dollars!", "And so on."]) == ["# Title\n", "It is $5 😀!  ", "And `so` on…"]
