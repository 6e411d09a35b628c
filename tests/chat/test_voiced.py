"""What was heard of a text: by words, when half of each was played."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat.stage import Stage, until
from tests.chat.test_listening import said
from tests.fake_chat import Answers
from voxrtc.chat.voiced import LETTERS, NEARLY, Voiced

TEXTS = st.lists(st.text("ab,.! 😀\n", max_size=12), min_size=1, max_size=5)


def ends(text: str) -> set[int]:
    return {0} | {match.end() for match in re.finditer(r"\S+", text)}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, float, float]]:
    """What can happen, in an order that can be: more text, more sound, some of the text known to be spoken, time passing."""
    kinds = st.sampled_from(["say", "add", "spoken", "play", "end"])
    return draw(st.lists(st.tuples(kinds, st.floats(0, 3), st.floats(0, 1)), max_size=40))


@given(TEXTS, histories())
def test_heard_never_falls_never_exceeds_and_is_all_at_the_end(
    texts: list[str], history: list[tuple[str, float, float]]
) -> None:
    voiced, left, known = Voiced(), list(texts), 0.0
    for kind, seconds, share in history:
        if kind == "say" and left:
            voiced.say(left.pop(0))
        elif kind == "add":
            voiced.add(seconds)
        elif kind == "spoken":
            known = min(known + seconds, voiced.seconds)
            voiced.spoken(known - seconds * share, known, round(share * len(voiced.text)))
        elif kind == "end":
            voiced.end()
        heard = [voiced.characters(at * voiced.seconds / 20) for at in range(21)]
        assert heard == sorted(heard) and heard[-1] <= len(voiced.text)
        assert voiced.heard(voiced.seconds) == voiced.text[: heard[-1]]
        for characters in heard:
            if (coming := voiced.next(characters)) is not None:
                assert voiced.characters(coming) > characters
                assert voiced.characters(coming - 3 * NEARLY) <= characters or coming < 3 * NEARLY
    voiced.say("".join(left))
    voiced.add(0.1)
    voiced.end()
    assert voiced.characters(voiced.seconds) == max(ends(voiced.text))
    assert voiced.next(max(ends(voiced.text))) is None


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=9), st.floats(0.05, 1), st.floats(0, 0.5)), min_size=1, max_size=9)
)
def test_a_word_is_heard_from_its_half_on(words: list[tuple[str, float, float]]) -> None:
    voiced, at, halves = Voiced(), 0.0, []
    for word, seconds, pause in words:
        voiced.say(word if not voiced.text else f" {word}")
        at += pause
        voiced.spoken(at, at + seconds, len(voiced.text))
        halves.append((at + seconds / 2, len(voiced.text)))
        at += seconds
    voiced.add(at)
    before = 0
    for half, end in halves:
        just_before = half - 2 * NEARLY
        assert voiced.next(before) == pytest.approx(half)
        assert (voiced.characters(just_before), voiced.characters(half)) == (before, end)
        before = end


def test_what_nobody_tells_goes_by_letters_at_the_usual_speed() -> None:
    voiced = Voiced()
    voiced.say("one " * 15 + "end")
    voiced.add(0.5)
    assert voiced.characters(0.5) == len("one one")  # 7.5 letters
    voiced.add(20.5)  # it speaks slower than usual
    assert voiced.characters(0.6) == 3
    assert voiced.characters(10.5) == len("one " * 8) - 1
    voiced.end()
    assert voiced.characters(10.6) == len("one " * 8) - 1
    assert voiced.characters(21.0) == len(voiced.text)


def test_what_is_known_goes_before_what_is_expected() -> None:
    voiced = Voiced()
    voiced.say("One two three.")
    voiced.add(2.0)
    voiced.spoken(0.1, 0.4, 3)
    voiced.spoken(1.0, 1.6, 7)  # after a pause
    assert [voiced.characters(at) for at in (0.2, 0.25, 1.2, 1.3)] == [0, 3, 3, 7]
    voiced.spoken(1.6, 2.0, len(voiced.text))
    assert voiced.characters(1.75) == 7 and voiced.characters(1.8) == 14


def test_the_next_word_is_foreseen() -> None:
    voiced = Voiced()
    assert voiced.next(0) is None
    voiced.say("word more")
    assert voiced.next(0) == pytest.approx(2 / LETTERS)
    voiced.add(0.9)
    voiced.end()
    assert voiced.next(0) == pytest.approx(0.2)
    assert voiced.next(4) == pytest.approx(0.7)
    assert voiced.next(9) is None


# --- in a session ---

TEXT = "One two three four five six seven eight nine ten. And eleven twelve thirteen fourteen fifteen."


def told(stage: Stage, number: int = 0) -> list[int]:
    """What the client was told of a response, in order."""
    response = stage.all("response.created")[number]["response"]["id"]
    events = [event for event in stage.all("voxrtc.heard") if event["response_id"] == response]
    item = stage.all("response.output_item.added")[number]["item"]["id"]
    assert {event["item_id"] for event in events} <= {item}
    return [event["characters"] for event in events]


async def test_the_client_is_told_of_each_word_as_it_is_heard() -> None:
    """Once, and at the end once more."""
    async with Stage(replier=Answers(TEXT)) as stage:
        stage.tone.aligned = True
        said(stage)
        await stage.event("voxrtc.playout")
        transcript = stage.all("response.output_audio_transcript.done")[0]["transcript"]
    assert transcript == TEXT
    assert told(stage) == [*sorted(ends(TEXT) - {0}), len(TEXT)]


async def test_words_are_told_when_half_of_each_was_played() -> None:
    async with Stage(replier=Answers("One two three four five.")) as stage:
        stage.tone.aligned = True
        seen: list[float] = []
        send = stage.send

        def note(text: str) -> None:
            if "voxrtc.heard" in text and stage.track.clock:
                seen.append(stage.track.clock.played)
            send(text)

        stage.send = note  # type: ignore[method-assign]
        said(stage)
        await stage.event("voxrtc.playout")
    assert len(seen) == 5
    for word, played in enumerate(seen):
        assert 0.1 * word + 0.05 - NEARLY <= played <= 0.1 * word + 0.05 + 0.04, "within two packets"


async def test_what_was_cut_off_is_neither_told_nor_remembered() -> None:
    answers = Answers(" ".join(f"word{i}" for i in range(60)) + ".", "Yes.")
    async with Stage(replier=answers) as stage:
        stage.tone.aligned = True
        said(stage)
        await stage.event("output_audio_buffer.started")
        await until(lambda: stage.track.clock and stage.track.clock.played > 2)
        said(stage)
        await stage.event("response.done", 2)
        played = stage.all("voxrtc.playout")[0]["played_ms"] / 1000
    heard = answers.asked[1][2].content
    assert told(stage)[-1] == len(heard)
    assert len(heard.split()) == round(played / 0.1 + 1e-6), "0.1 s a word, and a half counts"
    assert told(stage) == sorted(told(stage))


async def test_nothing_is_told_while_nobody_speaks() -> None:
    async with Stage() as stage:
        stage.say("fail")
        await stage.event("response.done")
        assert not stage.all("voxrtc.heard")
