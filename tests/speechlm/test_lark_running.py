"""Lark reads and speaks text that is still being written just as it would if all of it were there."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.test_running import begin, extend, sound
from tests.engine.toy import Bench
from voxrtc.messages.engine import Chunk, Ended
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import InvalidRequest, SpeechLM
from voxrtc.speechlm.lark.running import Script, read_on
from voxrtc.speechlm.lark.text import MAX_IDS, phonemize, split

WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            "a",
            "apple",
            "read",
            "on",
            "May",
            "3rd,",
            "2024.",
            "$5",
            "million",
            "Dr.",
            "Smith",
            "U.S.",
            "at",
            "10:30",
            "p.m.",
            "and",
            "No.",
            "5",
            "😀",
            "—",
            "so...",
            "20%",
            "(of)",
            "it!",
            "Why?",
            "https://example.com/a-b?x=1",
            "**bold**",
            "x²",
            "#",
            "-",
            "Supercalifragilisticexpialidocious",
            "1234567890123",
        ]
    )
    | st.from_regex(r"[A-Za-z]{1,9}[,.]?", fullmatch=True),
    max_size=25,
)
BLANKS = st.sampled_from([" ", "  ", "\n", "\n\n"])


def scripts(parts: list[str]) -> list[Script]:
    """What becomes of a text that comes in these parts."""
    found, script, text, at = [], Script(), "", 0
    for number, part in enumerate(parts):
        text, final = text + part, number == len(parts) - 1
        while (script := read_on(script, text[at:], final)).whole:
            found.append(script)
            script, at = Script(), at + script.characters
    return found


@settings(max_examples=60, deadline=None)
@given(WORDS, BLANKS, st.data())
@example(["one"] * 90, " ", None)
def test_a_text_is_read_the_same_however_it_comes(words: list[str], blank: str, data: st.DataObject | None) -> None:
    text = blank.join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=20))) if data else range(len(text))
    bounds = [0, *cuts, len(text)]
    parts = [text[a:b] for a, b in pairwise(bounds)]
    try:
        whole = scripts([text])
    except InvalidRequest:
        with pytest.raises(InvalidRequest):
            scripts(parts)
        return
    assert scripts(parts) == whole
    for script in whole:
        assert script.ids[0] == script.ids[-1] == 0 and len(script.ids) <= MAX_IDS
        at, end = 1, 0
        for word in script.words:
            assert at <= word.begin < word.end < len(script.ids) and end < word.characters <= script.characters
            at, end = word.end, word.characters
    assert sum(script.characters for script in whole) == len(text.rstrip()) or not whole or not any(map(str.isalnum, words[-1]))


@pytest.mark.parametrize(
    "text",
    [
        "Hello there, my friend. The apple and the pear cost $5 million. Good!",
        "Dr. Smith read the book on May 3rd, 2024, at 10:30 p.m. and left. I'm sorry, what did you say?",
        "Sure! The U.S. has 50 states; Alaska is the largest of them 😀. See **the map** for more.",
    ],
)
def test_it_reads_what_it_reads_in_a_text_that_is_all_there(text: str) -> None:
    assert [list(script.ids) for script in scripts([text])] == [phonemize(piece) for piece in split(text)]


def test_a_long_sentence_is_cut_at_a_pause_or_before_a_conjunction() -> None:
    first, second = scripts(["we went to the market in the morning " * 3 + "and bought apples from a man " * 4 + "yesterday"])
    assert len(first.ids) > 100 and second.words
    words = ("we went to the market in the morning " * 3 + "and bought apples from a man " * 4).split()
    assert words[first.count] == "and"


@pytest.fixture(scope="module")
def lark() -> SpeechLM:
    return registry.load(ROOT / "models", "lark")[1]


TEXT = "Well, the answer is $5, I think. Why not?"


@pytest.mark.parametrize(("size", "lag"), [(1, 1), (11, 0)])
def test_its_speech_does_not_depend_on_when_its_text_came(lark: SpeechLM, size: int, lag: int) -> None:
    """Code for code and sample for sample; here each part comes when there is nothing left to say of those before."""
    whole = Bench(model=lark)
    begin(whole, "a", TEXT, seed=1)
    extend(whole, "a", "", final=True)
    whole.run()
    parts = Bench(model=lark)
    parts.worker.lag = lag
    begin(parts, "a", "", seed=1)
    for at in range(0, len(TEXT), size):
        extend(parts, "a", TEXT[at : at + size])
        parts.run()
    extend(parts, "a", "", final=True)
    parts.run()
    assert parts.codes["a"] == whole.codes["a"] and sound(parts, "a") == sound(whole, "a")
    assert isinstance(parts.replies["a"][-1], Ended)
    spoken = [each for reply in parts.replies["a"] if isinstance(reply, Chunk) for each in reply.spoken]
    assert sorted({each.characters for each in spoken}) == [5, 9, 16, 19, 23, 25, 32, 36, 41], "each word of the text"
