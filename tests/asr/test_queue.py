"""Whose speech is next: those who are done, then those whose words are oldest; and bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.asr.queue import BYTES, ENOUGH, EVERY, FORGOTTEN, LONGEST, SHARE, UTTERANCES, Full, HearingQueue, Key, Utterance

SECOND = bytes(BYTES)


def key(name: object) -> Key:
    return b"client", f"{name}"


def talking(*names: object, now: float = 0.0) -> HearingQueue:
    queue = HearingQueue()
    for name in names:
        queue.begin(key(name), now)
        queue.hear(key(name), SECOND, now)
    return queue


def name(utterance: Utterance | None) -> str | None:
    return utterance.key[1] if utterance else None


def test_who_is_done_comes_first() -> None:
    queue = talking("a", "b", "c")
    queue.finish(key("c"), 1 << 30)
    queue.finish(key("b"), 1 << 30)
    assert [name(queue.next(9.0)) for _ in range(3)] == ["c", "b", "a"]
    assert len(queue) == 1


def test_an_utterance_that_goes_on_is_looked_at_now_and_then() -> None:
    queue = talking("a")
    assert queue.next(EVERY / 2) is None
    assert queue.wait(EVERY / 2) == pytest.approx(EVERY / 2)
    utterance = queue.next(EVERY)
    assert utterance
    queue.looked(utterance, len(utterance.pcm), "words", took=1.0, now=EVERY + 1)
    assert queue.wait(EVERY + 1) is None  # nothing new
    queue.hear(key("a"), SECOND, EVERY + 1)
    assert queue.next(EVERY + 1 + SHARE - 0.1) is None
    assert name(queue.next(EVERY + 1 + SHARE)) == "a"


def test_a_look_takes_enough_new_sound() -> None:
    queue = HearingQueue()
    queue.begin(key("a"), 0.0)
    queue.hear(key("a"), SECOND[: round(ENOUGH * BYTES) - 2], 0.0)
    assert queue.next(1.0) is None
    queue.hear(key("a"), b"xx", 1.0)
    assert name(queue.next(1.0)) == "a"


def test_who_pauses_is_looked_at_next_and_once() -> None:
    queue = talking("a", "b")
    queue.want(key("b"))
    assert queue.wait(0.0) == 0
    utterance = queue.next(0.0)
    assert utterance and name(utterance) == "b"
    utterance.wanted = False
    assert queue.next(0.0) is None
    queue.want(key("nobody"))
    queue.finish(key("a"), 1 << 30)
    queue.want(key("b"))
    assert [name(queue.next(0.0)) for _ in range(2)] == ["a", "b"]  # who is done goes first


@pytest.mark.parametrize(("speech", "known"), [(BYTES, True), (BYTES - 2, True), (BYTES + 2, False)])
def test_what_was_looked_at_is_not_transcribed_again(speech: int, known: bool) -> None:
    """If there was nothing but silence since."""
    queue = talking("a")
    utterance = queue.next(1.0)
    assert utterance
    queue.looked(utterance, BYTES, "words", 0.1, 1.0)
    queue.hear(key("a"), SECOND, 1.0)
    assert queue.finish(key("a"), speech) == ("words" if known else None)
    assert len(queue) == (0 if known else 1)


def test_talkers_take_turns() -> None:
    queue, now, looked = talking("a", "b", "c"), 1.0, []
    for _ in range(6):
        utterance = queue.next(now)
        assert utterance
        looked.append(name(utterance))
        queue.looked(utterance, len(utterance.pcm), "words", 0.1, now)
        queue.hear(utterance.key, SECOND, now)
        now += 0.5
    assert sorted(looked[:3]) == sorted(looked[3:]) == ["a", "b", "c"]


def test_it_is_bounded() -> None:
    queue = talking(*range(UTTERANCES))
    with pytest.raises(Full):
        queue.begin(key("late"), 1.0)
    queue.hear(key("late"), SECOND, 1.0)
    assert len(queue) == UTTERANCES
    for _ in range(100):
        queue.hear(key(0), SECOND, 1.0)
    queue.finish(key(0), 1 << 30)
    utterance = queue.next(1.0)
    assert utterance and len(utterance.pcm) == LONGEST * BYTES
    queue.begin(key("late"), 1.0)


def test_what_a_client_left_behind_goes() -> None:
    """A media process that died says goodbye to nobody."""
    queue = talking(*range(UTTERANCES))
    queue.hear(key(7), SECOND, FORGOTTEN - 1)
    queue.begin(key("next"), FORGOTTEN)
    assert len(queue) == 2


@given(st.lists(st.tuples(st.sampled_from(["begin", "hear", "finish", "forget", "next"]), st.integers(0, 3)), max_size=60))
def test_each_finished_utterance_comes_once_and_whole(steps: list[tuple[str, int]]) -> None:
    queue, fresh, heard, due = HearingQueue(), 0, dict[Key, int](), list[Key]()
    open_keys: list[Key] = []
    for what, number in steps:
        which = open_keys[number % len(open_keys)] if open_keys else key("nobody")
        if what == "begin":
            fresh += 1
            queue.begin(key(fresh), 0.0)
            open_keys.append(key(fresh))
            heard[key(fresh)] = 0
        elif what == "hear":
            queue.hear(which, b"ab", 0.0)
            if which in heard:
                heard[which] += 2
        elif what == "finish" and open_keys:
            queue.finish(which, 1 << 30)
            open_keys.remove(which)
            due.append(which)
        elif what == "forget" and open_keys:
            queue.forget(which)
            open_keys.remove(which)
        elif due:
            utterance = queue.next(0.0)
            assert utterance and utterance.finished
            assert (utterance.key, len(utterance.pcm)) == (due.pop(0), heard[utterance.key])
    assert len(queue) == len(open_keys) + len(due)
