"""Lark's text: anything a person may paste is spoken in full, or refused with a reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from voxrtc.speechlm.alignment import sources
from voxrtc.speechlm.base import InvalidRequest
from voxrtc.speechlm.lark.speakable import MAX_CHARACTERS, speakable
from voxrtc.speechlm.lark.text import MAX_IDS, PHONEMES, SILENT, phonemize, reader, split, words


def alphanumerics(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def assert_fits(pieces: list[str]) -> None:
    assert pieces
    for piece in pieces:
        ids = phonemize(piece)
        assert ids[0] == ids[-1] == 0 and len(ids) <= MAX_IDS
        assert all(0 <= i < PHONEMES for i in ids) and any(i > SILENT for i in ids)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hello there", ["hello there."]),
        ("  Hi!  How are you?\tGood. ", ["Hi!", "How are you?", "Good."]),
        ("Dr. Smith met J. K. Rowling on Jan. 5 at No. 10. It rained.",
         ["Dr. Smith met J. K. Rowling on Jan. 5 at No. 10.", "It rained."]),
        ("The U.S. Army came at 5 p.m. He left.", ["The U.S. Army came at 5 p.m.", "He left."]),
        # Markdown and HTML
        ("# Title\nSome **bold** _text_ and `code`,\nwrapped.\n\n- one\n- two\n\n1. First\n2. Second",
         ["Title.", "Some bold text and code, wrapped.", "one.", "two.", "1, First.", "2, Second."]),
        ("```python\nx = 1\n```\n---\n> quoted", ["x = 1.", "quoted."]),
        ("| a | b |\n|---|---|\n| c | d |", ["a, b.", "c, d."]),
        ("See [our page](https://a.b/c_(d)) and ![a cat](cat.png).", ["See our page and a cat."]),
        ("<b>Fish</b> &amp; chips, x<y", ["Fish & chips, x<y."]),
        # addresses
        ("Go to https://www.example.com/a-b?x=1.", ["Go to example dot com slash a dash b question mark x equals 1."]),
        ("Mail joe.smith@example.co.uk!", ["Mail joe dot smith at example dot co dot uk!"]),
        # marks
        ("“Smart” ‘quotes’ — dash – en…", ["Smart 'quotes', dash, en."]),
        ("What?!?! No!!! Well... yes, , ok", ["What?", "No!", "Well, yes, ok."]),
        ("zero\u200bwidth, soft\u00adhyphen, nul\x00l", ["zero width, softhyphen, nul l."]),
        ("(He said): go", ["He said: go."]),
        # emoji
        ("Great 😀! Thanks 🎉", ["Great!", "Thanks."]),
        ("😀", ["grinning face."]),
        ("👍🏽", ["thumbs up."]),
        # numbers
        ("$5, 10 people, £0.99, $3.50, 20 €, ¥500, US$2, $1.5M, $5-$10",
         ["5 dollars, 10 people, 99 pence, 3 dollars and 50 cents, 20 euros,",
          "500 yen, 2 US dollars, 1.5 million dollars, 5 dollars to 10 dollars."]),
        ("Call (555) 123-4567", ["Call 5 5 5, 1 2 3, 4 5 6 7."]),
        ("-5 and -3.2, 1,5, .5, 007", ["minus 5 and minus 3.2, 1, 5, 0.5, 0 0 7."]),
        ("v1.2.3, ½, 2½, x² and ³", ["v1 dot 2 dot 3, 1/2, 2 and 1/2, x squared and cubed."]),
        ("1234567890123", ["1 2 3 4, 5 6 7 8, 9 0 1 2, 3."]),
        ("5'11\" tall, 3–5 days", ["5 foot 11 tall, 3-5 days."]),
        # letters
        ("π ≈ 3.14, 5 μs", ["pi approximately 3.14, 5 microseconds."]),
        ("ﬁne Ｆｕｌｌ ạ café ٣ Ⅳ", ["fine Full a café 3 IV."]),
        ("sooo gooood, NOOOOO, AAA", ["so good, NO, AAA."]),
    ],
)  # fmt: skip
def test_pieces(text: str, pieces: list[str]) -> None:
    assert split(text) == pieces
    assert_fits(pieces)


@pytest.mark.parametrize(
    ("piece", "phonemes"),
    [
        ("Hello there.", "həlˈO ðˈɛɹ."),
        ("I said no.", "ˌI sˈɛd nˈO."),  # not "number"
        ("I ate a fig.", "ˌI ˈAt ɐ fˈɪɡ."),  # not "figure"
        ("The cafe is open 24 7.", "ðə kæfˈA ɪz ˈOpᵊn twˈɛnti fˈɔɹ sˈɛvən."),
        ("At 10:30 p.m.", "ˌæt tˈɛn θˈɜɹTi pˌiˈɛm."),
        ("On May 3rd, 2024.", "ˌɔn mˈA θˈɜɹd, twˈɛnti twˈɛnti fˈɔɹ."),
        ("NASA, FBI and Henry VIII.", "nˈæsə, ˌɛfbˌiˈI ænd hˈɛnɹi ði ˈAθ."),
        ("50% of 3-5 km.", "fˈɪfti pəɹsˈɛnt ʌv θɹˈi tə fˈIv kəlˈɑməTəɹz."),
        ("'Tis true.", "tˈiz tɹˈu."),
    ],
)
def test_phonemes(piece: str, phonemes: str) -> None:
    letters = {i: letter for letter, i in reader().vocabulary.items()}
    assert "".join(letters[i] for i in phonemize(piece)[1:-1]) == phonemes


@pytest.mark.parametrize("text", ["", " \n\t", "...!?", "\u200b\u0301", "—", "+", ":)"])
def test_text_without_words_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="nothing to say"):
        split(text)


@pytest.mark.parametrize(
    ("text", "script", "word"),
    [
        ("Привет, мир", "Cyrillic", "Привет"),
        ("Say 世界 now", "Chinese", "世界"),
        ("مرحبا", "Arabic", "مرحبا"),
        ("the word λόγος", "Greek", "λόγος"),
        ("こんにちは", "Hiragana", "こんにちは"),
    ],
)
def test_other_scripts_are_refused_by_name(text: str, script: str, word: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{script} letters, as in “{word}") as refusal:
        split(text)
    assert "choose a model" in str(refusal.value)


def test_long_text_is_refused() -> None:
    assert_fits(split("Hello there, friend. " * (MAX_CHARACTERS // 21)))
    with pytest.raises(InvalidRequest, match="10,001 characters"):
        split("a" * (MAX_CHARACTERS + 1))


def test_a_long_sentence_is_cut_where_one_breathes() -> None:
    sentence = (
        "This is a very long sentence that goes on and on, with many clauses, because the speaker does not know when "
        "to stop; so it must be cut near the middle, which is where a person would breathe, though not everyone would "
        "agree with that and it might be hard to tell where the right place is until it finally ends."
    )
    first, *rest = split(sentence)
    assert first.endswith("stop;") and [piece[-1] for piece in rest] == [",", "."]
    assert " ".join((first, *rest)) == sentence


@pytest.mark.parametrize("unit", ["word ", "a", "a1", "1", "x-", "(a", "1,", "a.", "Abc", "1…", "$1", "[a](", "a'"])
def test_the_longest_texts_take_no_long_time(unit: str) -> None:
    assert_fits(split((unit * MAX_CHARACTERS)[:MAX_CHARACTERS]))


MESSY = st.sampled_from(
    "abcXYZ019 .,;:!?-–—'\"()[]*_#`|<>/\\$%&@+=~^éßž€£½²°\n\t"
) | st.sampled_from(
    ["...", "http://a.b", "a@b.co", "$5", "10:30", "No. ", "St. ", "A.B.", "1,000", "-3.2", "'s", "1st", "km", "1/2",
     "π", "😀", "\n- ", "Dr. ", "the ", "and ", "Mary ", "™", "no."]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.lists(MESSY, max_size=60).map("".join) | st.text(st.characters(codec="latin-1")))
@example("A.\n.A")
def test_any_text_is_spoken_in_full_or_refused(text: str) -> None:
    try:
        pieces = split(text)
    except InvalidRequest:
        return
    assert_fits(pieces)
    assert alphanumerics("".join(pieces)) == alphanumerics(speakable(text, reader().known))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.from_regex(r"[A-Za-z]{1,9}[,;]?", fullmatch=True), min_size=1, max_size=80))
def test_no_word_is_lost(words: list[str]) -> None:
    pieces = split(" ".join(words))
    said, expected = (re.sub(r"(.)\1+", r"\1", alphanumerics("".join(part)).lower()) for part in (pieces, words))
    assert said == expected  # but for stretched letters


# --- which phonemes are which words ---


def spoken(text: str) -> list[tuple[str, str]]:
    """The words of a text, each with the phonemes it is given."""
    letters = {i: letter for letter, i in reader().vocabulary.items()}
    found = []
    for piece, source in zip(pieces := split(text), sources(text, pieces), strict=True):
        ids, at = phonemize(piece), 0
        for word in words(piece, source):
            found.append((source[at : word.characters].strip(), "".join(letters[i] for i in ids[word.begin : word.end])))
            at = word.characters
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there.", [("Hello", "həlˈO"), ("there.", "ðˈɛɹ")]),
        ("Dr. Lee paid $5 😀, OK?", [("Dr.", "dˈɑktəɹ"), ("Lee", "lˈi"), ("paid", "pˈAd"), ("$5 😀,", "fˈIv dˈɑləɹz"),
                                    ("OK?", "ˌOkˈA")]),
        ("# Go\nAt 10:30 p.m.", [("# Go", "ɡˌO"), ("At", "ˌæt"), ("10:30", "tˈɛn θˈɜɹTi"), ("p.m.", "pˌiˈɛm")]),
        ("x² is 20%", [("x²", "ˈɛks skwˈɛɹd"), ("is", "ɪz"), ("20%", "twˈɛnti pəɹsˈɛnt")]),
    ],
)  # fmt: skip
def test_words_have_their_sounds(text: str, expected: list[tuple[str, str]]) -> None:
    assert spoken(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(MESSY | st.sampled_from(["word ", "Supercalifragilisticexpialidocious ", "2024-05-03 ", "$1,234.50 "]),
                max_size=40).map("".join))  # fmt: skip
@example("a" * 60)
@example("x" * 30 + "1" * 60)
def test_words_of_any_text_are_in_order_and_within_it(text: str) -> None:
    try:
        pieces = split(text)
    except InvalidRequest:
        return
    parts = sources(text, pieces)
    assert "".join(parts) == text
    for piece, source in zip(pieces, parts, strict=True):
        ids, at, end = phonemize(piece), 0, 0
        for word in words(piece, source):
            assert at <= word.begin < word.end < len(ids) and end < word.characters <= len(source)
            assert any(i > SILENT for i in ids[word.begin : word.end])
            assert not source[word.characters :][:1].strip(), "a word ends before a blank or at the end"
            at, end = word.end, word.characters
        assert not any(i > SILENT for i in ids[at:]) or not source.strip()
        assert end == len(source.rstrip()) or not source.strip()


@given(st.lists(st.from_regex(r"[A-Za-z]{2,9}", fullmatch=True), min_size=1, max_size=12).map(" ".join))
@settings(max_examples=50, deadline=None)
def test_plain_words_are_found_one_by_one(text: str) -> None:
    assert [word for word, _ in spoken(text)] == text.split()
