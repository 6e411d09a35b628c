"""Cutting text: nothing is lost, everything fits, and cuts are where a speaker would pause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.speechlm.base import InvalidRequest
from voxrtc.speechlm.sentences import pieces


def cut(text: str, size: int) -> list[str]:
    return pieces(text, lambda piece: len(piece) <= size)


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("Yes.  It\tis. ", 80, ["Yes. It is."]),
        ("First one. Second one! Third?", 22, ["First one. Second one!", "Third?"]),
        ("A heading\n\nand a line", 80, ["A heading", "and a line"]),
        ("He said “Stop.” Then he left.", 16, ["He said “Stop.”", "Then he left."]),
        ("one two three, four five six seven", 20, ["one two three,", "four five six seven"]),
        ("one two three four", 10, ["one two", "three four"]),
        ("xxxxxxxxxx", 4, ["xx", "xxx", "xx", "xxx"]),
        ("你好。世界！再见", 3, ["你好。", "世界！", "再见"]),
    ],
)
def test_pieces(text: str, size: int, expected: list[str]) -> None:
    assert cut(text, size) == expected


@given(st.text(max_size=300), st.integers(1, 60))
def test_nothing_but_spaces_is_dropped(text: str, size: int) -> None:
    if not any(map(str.isalnum, text)):
        with pytest.raises(InvalidRequest):
            cut(text, size)
        return
    made = cut(text, size)
    assert "".join("".join(made).split()) == "".join(text.split())
    assert all(0 < len(piece) <= size for piece in made)
