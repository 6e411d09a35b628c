"""What was heard of a text: by words, when half of each was played."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat.stage import Stage, until
from tests.chat.test_listening import said
from tests.fake_chat import Answers
from voxrtc.chat.heard import LETTERS, NEARLY, Heard

TEXTS = st.lists(st.text("ab,.! 😀\n", max_size=12), min_size=1, max_size=5)


def ends(text: str) -> set[int]:
    return {0} | {match.end() for match in re.finditer(r"\S+", text)}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, float, float]]:
    """What can happen, in an order that can be: more text, more sound, some of the text known to be spoken, time passing."""
    kinds = st.sampled_from(["say", "sounds", "spoken", "play", "close"])
    return draw(st.lists(st.tuples(kinds, st.floats(0, 3), st.floats(0, 1)), max_size=40))


@given(TEXTS, histories())
def test_heard_never_falls_never_exceeds_and_is_all_at_the_end(
    texts: list[str], history: list[tuple[str, float, float]]
) -> None:
    heard, left, played, known, before = Heard(), list(texts), 0.0, 0.0, 0
    for kind, seconds, share in history:
        if kind == "say" and left:
            heard.say(left.pop(0))
        elif kind == "sounds":
            heard.sounds(seconds)
        elif kind == "spoken":
            known = min(known + seconds, heard.made)
            heard.spoken(known - seconds * share, known, round(share * len(heard.text)))
        elif kind == "close":
            heard.close()
        else:
            played = min(played + seconds, heard.made)
        now = heard.characters(played)
        assert before <= now <= len(heard.text)
        assert any(end >= now for end in ends(heard.text))
        if (coming := heard.next()) is not None:
            assert coming > played
        before = now
    heard.say("".join(left))
    heard.sounds(0.1)
    heard.close()
    assert heard.characters(heard.made) == max(ends(heard.text))
    assert heard.next() is None


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=9), st.floats(0.05, 1), st.floats(0, 0.5)), min_size=1, max_size=9)
)
def test_a_word_is_heard_from_its_half_on(words: list[tuple[str, float, float]]) -> None:
    heard, at, halves = Heard(), 0.0, []
    for word, seconds, pause in words:
        heard.say(word if not heard.text else f" {word}")
        at += pause
        heard.spoken(at, at + seconds, len(heard.text))
        halves.append((at + seconds / 2, len(heard.text)))
        at += seconds
    heard.sounds(at)
    before = 0
    for half, end in halves:
        just_before = half - 2 * NEARLY
        assert heard.next() == pytest.approx(half)
        assert (heard.characters(just_before), heard.characters(half)) == (before, end)
        before = end


def test_what_nobody_tells_goes_by_letters_at_the_usual_speed() -> None:
    heard = Heard()
    heard.say("one " * 15 + "end")
    heard.sounds(0.5)
    assert heard.characters(0.5) == len("one one")  # 7.5 letters
    heard.sounds(20.5)  # it speaks slower than usual
    assert heard.characters(0.6) == len("one one"), "what was heard stays heard"
    assert heard.characters(10.5) == len("one " * 8) - 1
    heard.close()
    assert heard.characters(10.6) == len("one " * 8) - 1
    assert heard.characters(21.0) == len(heard.text)


def test_what_is_known_goes_before_what_is_expected() -> None:
    heard = Heard()
    heard.say("One two three.")
    heard.sounds(2.0)
    heard.spoken(0.1, 0.4, 3)
    heard.spoken(1.0, 1.6, 7)  # after a pause
    assert [heard.characters(at) for at in (0.2, 0.25, 1.2, 1.3)] == [0, 3, 3, 7]
    heard.spoken(1.6, 2.0, len(heard.text))
    assert heard.characters(1.75) == 7 and heard.characters(1.8) == 14


def test_the_next_word_is_foreseen() -> None:
    heard = Heard()
    assert heard.next() is None
    heard.say("word more")
    assert heard.next() == pytest.approx(2 / LETTERS)
    heard.sounds(0.9)
    heard.close()
    assert heard.next() == pytest.approx(0.2)
    heard.characters(0.2)
    assert heard.next() == pytest.approx(0.7)


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
