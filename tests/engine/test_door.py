"""The queue before the engine: its order, what those in it are told, and who is sent away."""

from __future__ import annotations

import heapq
import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.toy import Bench
from voxrtc.engine import door
from voxrtc.engine.door import Stays
from voxrtc.engine.scheduler import POLICIES, Policy, fifo, offline, playout
from voxrtc.messages.engine import Cancel, Chunk, Ended, EngineReply, Failed, Generate, GetStats, Queued

LONG = "a rather long stream"  # 60 frames, at 10 ms each

# --- the expected wait ---


@given(stays=st.lists(st.floats(0, 1e6), max_size=50), inside=st.integers(0, 1000), guess=st.floats(0, 1e6))
def test_a_wait_is_positive_and_finite(stays: list[float], inside: int, guess: float) -> None:
    learned = Stays()
    for stay in stays:
        learned.observe(stay)
    turnover = learned.turnover(inside, guess)
    assert 0 < turnover < math.inf
    waits = [position * turnover for position in range(1, 100)]
    assert all(a < b for a, b in itertools.pairwise(waits)), "further back is never sooner"
    assert learned.turnover(inside + 1, guess) <= turnover, "the more are inside, the sooner one leaves"


def test_the_mean_stay_follows_the_many_and_not_the_odd_one() -> None:
    stays = Stays()
    for stay in [5.0] * 40 + [1000.0]:
        stays.observe(stay)
    assert stays.mean == pytest.approx(5)
    for _ in range(32):
        stays.observe(12.0)
    assert stays.mean == pytest.approx(12), "it learns when things change"


def test_a_first_stream_that_left_at_once_is_soon_forgotten() -> None:
    stays = Stays()
    for stay in [0.0] + [5.0] * 10:
        stays.observe(stay)
    assert stays.mean == pytest.approx(5, rel=0.1)


def test_the_guess_stands_only_until_something_is_known() -> None:
    stays = Stays()
    assert stays.turnover(4, 8.0) == 2.0
    stays.observe(1.0)
    assert stays.turnover(4, 8.0) == 0.25


def test_the_wait_that_is_told_is_the_wait_that_comes() -> None:
    """Eight places, always somebody in line, utterances of 1 to 15 s: right on average over some hundred listeners."""
    rng, stays = random.Random(3), Stays()
    inside = [(rng.uniform(1, 15), 0.0) for _ in range(8)]  # leaves at, entered at
    heapq.heapify(inside)
    line: list[tuple[float, float]] = []  # came at, was told
    errors, now = [], 0.0
    for number in range(600):
        line.append((now, (len(line) + 1) * stays.turnover(8, 5.0)))
        if number < 12:
            continue  # the line grows to this length and stays so
        now, entered = heapq.heappop(inside)
        stays.observe(now - entered)
        came, told = line.pop(0)
        heapq.heappush(inside, (now + rng.uniform(1, 15), now))
        if number > 60:
            errors.append(told / (now - came))
    assert sum(errors) / len(errors) == pytest.approx(1, abs=0.1)
    assert sum(0.5 < error < 2 for error in errors) > 0.9 * len(errors)


# --- what those who wait are told ---


def places(bench: Bench, stream: str) -> list[int]:
    return [reply.position for reply in bench.replies[stream] if isinstance(reply, Queued)]


def ask(bench: Bench, stream: str, text: str = LONG, priority: bool = False) -> None:
    bench.send(Generate(stream=stream, text=text, accepted=bench.now, priority=priority), stream)


def order(bench: Bench) -> list[str]:
    """The streams in the order in which they got in; filled as the bench runs."""
    entered: list[str] = []
    admit = bench.engine._admit

    def spy(stream) -> None:  # type: ignore[no-untyped-def]
        if stream.entered is None:
            entered.append(stream.id)
        admit(stream)

    bench.engine._admit = spy  # type: ignore[method-assign]
    return entered


def test_a_stream_that_waits_sees_itself_move_up_to_the_door() -> None:
    bench = Bench(slots=1)
    for name in "abcd":
        ask(bench, name)
    bench.run()
    assert [places(bench, name) for name in "abcd"] == [[], [1], [2, 1], [3, 2, 1]]
    for name in "bcd":
        kinds = [type(reply) for reply in bench.replies[name]]
        assert kinds == sorted(kinds, key=[Queued, Chunk, Ended].index), "no word of waiting after the sound"
    waits = [reply.wait for reply in bench.replies["d"] if isinstance(reply, Queued)]
    assert waits[1:] == pytest.approx([2 * 0.62, 0.62], abs=0.03), "learned from the first"


def test_the_few_moments_that_every_stream_waits_are_not_worth_a_word() -> None:
    bench = Bench(slots=1)
    ask(bench, "a", "hi")
    ask(bench, "b")
    while not bench.engine.streams or "a" in bench.engine.streams:
        bench.step()
    assert bench.now < door.PATIENCE
    ask(bench, "c")
    while bench.now < 0.09 + door.PATIENCE:
        bench.step()
    assert [places(bench, name) for name in "abc"] == [[], [], []]
    bench.run()
    assert [places(bench, name) for name in "abc"] == [[], [], [1]]


def test_a_wait_that_changes_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one that seems to grow with every look."""
    growing = itertools.count(1)
    monkeypatch.setattr(Stays, "turnover", lambda self, inside, guess: float(next(growing)))
    bench = Bench(slots=1)
    ask(bench, "a", "as long as it may be in here")
    ask(bench, "b")
    times = []
    for _ in range(80):
        before = len(places(bench, "b"))
        bench.step()
        if len(places(bench, "b")) > before:
            times.append(bench.now)
    assert len(times) >= 2 and times[0] == pytest.approx(door.PATIENCE, abs=0.02)
    assert [b - a for a, b in itertools.pairwise(times)] == pytest.approx([door.EVERY] * (len(times) - 1), abs=0.02)
    monkeypatch.setattr(Stays, "turnover", lambda self, inside, guess: 7.0)
    ask(bench, "c")
    bench.run()
    assert len(places(bench, "c")) == 1, "the same again is no news"


def test_who_leaves_the_queue_lets_others_move_up() -> None:
    bench = Bench(slots=1)
    for name in "abcd":
        ask(bench, name)
    while not places(bench, "d"):
        bench.step()
    bench.send(Cancel(stream="b"), "b")
    bench.step()
    assert (places(bench, "c"), places(bench, "d")) == ([2, 1], [3, 2])
    bench.run()
    assert bench.replies["b"][-1] == Ended(stream="b", reason="cancelled", frames=0)
    assert [places(bench, name) for name in "bcd"] == [[1], [2, 1], [3, 2, 1]]


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_the_positions_told_are_the_order_of_admission(data: st.DataObject) -> None:
    """Whoever asks, goes, or has priority: unless somebody came in between, those who stood first get in."""
    bench = Bench(slots=data.draw(st.integers(1, 3)), policy=data.draw(st.sampled_from(list(POLICIES.values()))))
    entered, names = order(bench), itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "PATIENCE", 0.0)
        for _ in range(data.draw(st.integers(1, 12))):
            for _ in range(data.draw(st.integers(0, 3))):
                ask(bench, str(next(names)), data.draw(st.sampled_from(["hi", "hello", "a|bc|d"])), data.draw(st.booleans()))
            if bench.engine.streams and data.draw(st.booleans()):
                bench.send(Cancel(stream=data.draw(st.sampled_from(sorted(bench.engine.streams)))), "nobody")
            bench.step()
            for _ in range(data.draw(st.integers(0, 12))):
                line = sorted((s.notice.position, s.id) for s in bench.engine.streams.values() if s.entered is None)
                assert [position for position, _ in line] == list(range(1, len(line) + 1))
                before = len(entered)
                bench.step()
                assert entered[before:] == [name for _, name in line[: len(entered) - before]]
    bench.run()
    assert not bench.engine.streams


# --- who goes first ---


def test_the_reply_to_an_interruption_goes_ahead_of_strangers() -> None:
    bench = Bench(slots=1)
    entered = order(bench)
    ask(bench, "a")
    ask(bench, "stranger")
    while not places(bench, "stranger"):
        bench.step()
    ask(bench, "reply", priority=True)
    ask(bench, "second reply", priority=True)
    bench.run()
    assert entered == ["a", "reply", "second reply", "stranger"]
    assert places(bench, "stranger") == [1, 3, 2, 1] and places(bench, "second reply") == [2, 1]


def test_nobody_starves_however_often_others_interrupt() -> None:
    """Two who talk on and on and break in on each reply take both places; a stranger gets in all the same."""
    bench = Bench(slots=2)
    entered, turns = order(bench), itertools.count()
    talking = [f"talker {next(turns)}" for _ in range(2)]
    for name in talking:
        ask(bench, name)
    bench.step()
    ask(bench, "stranger")
    began = bench.now
    while "stranger" not in entered:
        bench.now += 0.4
        bench.step()
        for i in range(2):
            bench.send(Cancel(stream=talking[i]), talking[i])
            talking[i] = f"talker {next(turns)}"
            ask(bench, talking[i], priority=True)
        assert bench.now - began < 70
    assert bench.now - began == pytest.approx(60, abs=2)


@pytest.mark.parametrize("policy", [fifo, playout, offline])
def test_what_already_speaks_is_spoken_to_its_end(policy: Policy) -> None:
    """Its next piece goes ahead of all who wait, also of replies with priority: its listener would run dry."""
    bench = Bench(slots=1, policy=policy)
    told: list[EngineReply] = []
    for stream, text in (("a", "hi"), ("stranger", "hi"), ("reply", "one piece|and another|a third"), ("next reply", "hi")):
        request = Generate(stream=stream, text=text, accepted=bench.now, priority="reply" in stream)
        bench.engine.submit(request, told.append)
        bench.step()
    bench.run()
    sound = [reply.stream for reply in told if isinstance(reply, Chunk)]
    assert [name for name, _ in itertools.groupby(sound)] == ["a", "reply", "next reply", "stranger"]


# --- who is sent away ---


def test_a_full_queue_sends_strangers_away_for_about_as_long_as_they_would_wait() -> None:
    bench = Bench(slots=1, max_waiting=2)
    bench.engine.door.stays.observe(6.0)
    for name in "abcd":
        ask(bench, name)
        bench.step()
    refusal = bench.replies["d"][0]
    assert isinstance(refusal, Failed) and (refusal.code, refusal.retry_after) == ("busy", 18.0)
    assert refusal.message == "The queue is full (2 waiting). Please try again in about 18 seconds."
    ask(bench, "reply", priority=True)
    bench.step()
    assert not bench.replies["reply"], "who is in a conversation is not sent away"
    ask(bench, "e")
    bench.run()
    assert isinstance(bench.replies["e"][0], Failed)
    assert all(isinstance(bench.replies[name][-1], Ended) for name in ("a", "b", "c", "reply"))


@given(stay=st.floats(0, 1e5))
def test_a_refusal_is_for_a_second_to_a_minute(stay: float) -> None:
    bench = Bench(slots=1, max_waiting=1)
    bench.engine.door.stays.observe(stay)
    for name in "abc":
        ask(bench, name)
        bench.step()
    refusal = bench.replies["c"][0]
    assert isinstance(refusal, Failed) and refusal.retry_after is not None and 1 <= refusal.retry_after <= 60
    assert ("about a second." in refusal.message) == (refusal.retry_after == 1)


def test_before_anything_is_known_prompts_give_an_idea_of_the_wait() -> None:
    waits = []
    for text in ("short", LONG):
        bench = Bench(slots=1)
        for name in "ab":
            ask(bench, name, text)
        while not places(bench, "b"):
            bench.step()
        waits += [reply.wait for reply in bench.replies["b"] if isinstance(reply, Queued)][:1]
    assert 0.05 <= waits[0] < waits[1] < 1.2


def test_stats_tell_how_many_wait() -> None:
    bench = Bench(slots=1)
    for name in "abc":
        ask(bench, name)
    bench.step()
    bench.send(GetStats(call=1), "stats")
    bench.step()
    stats = bench.replies["stats"][0]
    assert stats.waiting == 2 and len(stats.streams) == 3  # type: ignore[union-attr]


def test_a_full_queue_refuses_without_waiting_for_a_step() -> None:
    bench = Bench(slots=1, max_waiting=1)
    bench.speak("a", "abc")
    bench.step()
    bench.step()
    asked = Generate(stream="c", text="abc", accepted=0.0)
    assert bench.engine.refusal(asked) is None
    bench.speak("b", "abc")
    bench.step()
    refusal = bench.engine.refusal(asked)
    assert refusal is not None and refusal.code == "busy" and refusal.stream == "c"
    assert bench.engine.refusal(Generate(stream="d", text="abc", accepted=0.0, priority=True)) is None
    bench.run()
    assert bench.engine.refusal(asked) is None
