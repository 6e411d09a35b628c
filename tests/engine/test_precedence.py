"""Background streams give way to listeners under every policy, and a policy changes between steps without harm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_engine import RANDOM, alone
from tests.engine.test_scheduler import MACHINE, VIEW, all_policies, snapshots
from tests.engine.toy import Bench
from voxrtc.engine.precedence import listeners_first, short
from voxrtc.engine.scheduler import POLICIES, Policy, StreamView, fifo
from voxrtc.messages.engine import Chunk, Ended, Failed, Generate, GetStats, Playout, SetPolicy

LONG = "a rather long stream"


def ask(bench: Bench, stream: str, text: str = LONG, background: bool = False) -> None:
    bench.send(Generate(stream=stream, text=text, accepted=bench.now, background=background), stream)


def when(bench: Bench, stream: str) -> float:
    """Steps until a stream has its first sound; seconds."""
    began = bench.now
    while not any(isinstance(reply, Chunk) for reply in bench.replies[stream]):
        bench.step()
    return bench.now - began


# --- plans ---


@all_policies
@given(streams=snapshots(), busy=st.booleans(), audience=st.sets(st.integers(0, 11)))
def test_a_listener_in_need_is_planned_for_as_if_alone(
    policy: Policy, streams: list[StreamView], busy: bool, audience: set[int]
) -> None:
    streams = [replace(view, background=int(view.id) not in audience) for view in streams]
    listeners = [view for view in streams if not view.background]
    machine = replace(MACHINE, detokenizer_busy=busy)
    plan = listeners_first(policy, 10.0, streams, machine)
    if not plan.paused:
        assert plan == policy(10.0, streams, machine)
        return
    background = {view.id for view in streams if view.background}
    alone = policy(10.0, listeners, replace(machine, slots=MACHINE.slots - sum(v.admitted and v.background for v in streams)))
    assert replace(plan, dismiss=(), paused=False) == alone
    assert set(plan.dismiss) <= background and any(
        view.slack is None or view.slack < short(streams, machine) for view in listeners
    )
    assert not plan.idle


@all_policies
@given(streams=snapshots())
def test_without_background_streams_nothing_changes(policy: Policy, streams: list[StreamView]) -> None:
    assert listeners_first(policy, 10.0, streams, MACHINE) == policy(10.0, streams, MACHINE)


def test_the_latest_background_streams_leave_for_those_who_find_no_place() -> None:
    crowd = [replace(VIEW, id=f"b{i}", arrived=i, slack=9.0, background=True) for i in range(MACHINE.slots)]
    come = [replace(VIEW, id=name, arrived=9.0, admitted=False) for name in "xy"]
    assert listeners_first(fifo, 10.0, [*crowd, *come], MACHINE).dismiss == ("b5", "b4")
    assert not listeners_first(fifo, 10.0, [*crowd[2:], *come], MACHINE).dismiss, "there is room"


def test_who_waits_for_text_or_has_sound_enough_pauses_nobody() -> None:
    crowd = replace(VIEW, id="b", slack=1.0, background=True)
    for calm in (
        dict(slack=0.3),
        dict(slack=0.1, starved=True),
        dict(slack=0.1, complete=True),
        dict(slack=9.0, admitted=False),
    ):
        listener = replace(VIEW, **calm)
        assert not listeners_first(fifo, 10.0, [crowd, listener], MACHINE).paused, calm
    assert listeners_first(fifo, 10.0, [crowd, replace(VIEW, slack=0.1)], MACHINE).decode == ("a",)


# --- the engine ---


@pytest.mark.parametrize("policy", ["fifo", "two_phase", "playout"])
def test_a_full_house_of_background_streams_costs_a_listener_nothing(policy: str) -> None:
    empty = Bench(slots=4, policy=POLICIES[policy])
    ask(empty, "you")
    expected = when(empty, "you")
    bench = Bench(slots=4, policy=POLICIES[policy])
    for i in range(8):
        ask(bench, f"b{i}", background=True)
    while sum(stream.piece is not None for stream in bench.engine.streams.values()) < 3:
        bench.step()
    ask(bench, "you")
    assert when(bench, "you") <= expected + 0.021, "at most the step under way and the one in which a place is made"
    bench.run()
    assert bench.codes["you"] == alone(LONG)
    gone = [name for name, replies in bench.replies.items() if isinstance(replies[-1], Failed)]
    assert all(bench.replies[name][-1].code == "gave_way" for name in gone)  # type: ignore[union-attr]
    assert gone and "you" not in gone
    assert all(bench.codes[name] == alone(LONG) for name in bench.replies if name not in gone)
    assert bench.worker.cache.used == 0 and sorted(bench.engine._slots) == list(range(4))


def test_the_place_is_made_though_everybody_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.engine.snapshot.MAX_AHEAD", 0.4)
    bench = Bench(slots=2)
    for name in ("b0", "b1"):
        ask(bench, name, background=True)
    bench.run()  # far ahead of listeners who do not listen
    ask(bench, "you", "hello")
    bench.run()
    assert isinstance(bench.replies["you"][-1], Ended) and bench.replies["b1"][-1].code == "gave_way"  # type: ignore[union-attr]
    bench.send(GetStats(call=1), "stats")
    bench.run()
    stats = bench.replies["stats"][0]
    assert (stats.gave_way, stats.failed) == (1, 0) and [s.background for s in stats.streams] == [True]  # type: ignore[union-attr]


def test_a_listener_does_not_run_dry_for_the_crowd() -> None:
    """On a machine that is too slow for all of them, `fifo` starves everybody alike, but for who listens."""
    bench = Bench(slots=4, policy=fifo)
    launch = bench.worker.launch

    def slow(tasks):  # type: ignore[no-untyped-def]
        bench.now += 0.01 * len(tasks)  # 50 frames a second are played: four streams at a time are twice too many
        return launch(tasks)

    bench.worker.launch = slow  # type: ignore[method-assign]
    ask(bench, "you")
    for i in range(3):
        ask(bench, f"b{i}", background=True)
    when(bench, "you")
    played, dry = bench.now, dict.fromkeys(bench.replies, 0)
    for name in dry:
        bench.send(Playout(stream=name, played=0.0, at=played, running=True), name)
    while "you" in bench.engine.streams:
        bench.step()
        for name, stream in bench.engine.streams.items():
            dry[name] += not stream.slack(bench.now)  # none yet, or none left
    assert bench.engine.counters.paused > 0
    assert dry["you"] == 0 and min(dry[f"b{i}"] for i in range(3)) > 0


def test_the_background_waits_behind_everybody_and_does_not_fill_the_queue() -> None:
    bench = Bench(slots=1, max_waiting=2)
    ask(bench, "first", "hello")
    bench.step()
    for name in ("b0", "b1", "b2"):
        ask(bench, name, "hello", background=True)
    for name in ("x", "y", "z"):
        ask(bench, name, "hello")
    bench.run()
    refused = {name for name, replies in bench.replies.items() if isinstance(replies[-1], Failed)}
    assert refused == {"b2", "z"}, "each kind is bounded, and people by people alone"
    ends = list(bench.codes)
    assert ends == ["first", "x", "y", "b0", "b1"]


# --- policies change ---


@settings(max_examples=20)
@given(data=st.data())
def test_tokens_are_the_same_however_often_the_policy_changes(data: st.DataObject) -> None:
    texts = data.draw(
        st.lists(st.text("abc |", min_size=1, max_size=16).filter(lambda t: all(t.split("|"))), min_size=1, max_size=5)
    )
    sampling = data.draw(st.lists(st.sampled_from([{}, RANDOM]), min_size=len(texts), max_size=len(texts)))
    bench = Bench(slots=data.draw(st.integers(1, 4)), pages=data.draw(st.integers(16, 48)))
    bench.worker.lag = data.draw(st.sampled_from([0, 1]))
    for i, text in enumerate(texts):
        bench.speak(str(i), text, **sampling[i])
        for policy in data.draw(st.lists(st.sampled_from(list(POLICIES)), max_size=4)):
            bench.send(SetPolicy(policy=policy), "switch")
            for _ in range(data.draw(st.integers(0, 6))):
                bench.step()
    bench.send(SetPolicy(policy=data.draw(st.sampled_from(list(POLICIES)))), "switch")
    bench.run()
    for i, text in enumerate(texts):
        assert bench.codes[str(i)] == alone(text, **sampling[i]) and isinstance(bench.replies[str(i)][-1], Ended)
    assert not bench.replies["switch"]


def test_a_switch_holds_from_the_next_step_and_is_told() -> None:
    bench = Bench(slots=4)
    bench.speak("a", LONG)
    bench.step()
    for number, policy in enumerate(("fifo", "two_phase", "playout")):
        bench.send(SetPolicy(policy=policy), "switch")  # type: ignore[arg-type]
        bench.send(GetStats(call=number), "stats")
        bench.step()
        assert bench.engine.policy is POLICIES[policy]  # type: ignore[index]
        assert bench.replies["stats"][number].policy == policy  # type: ignore[union-attr]
