"""Continuous batching: streams that join, leave, fail and are cancelled do not touch each other."""

from __future__ import annotations

import threading
from typing import NoReturn

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.talker import Talker
from tests.engine.toy import Bench, Toy, ToyDetokenizer
from voxrtc.engine.warming import warm_up
from voxrtc.messages.engine import Cancel, Chunk, Ended, Failed, GetStats, Playout

RANDOM = dict(temperature=0.9, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.2, seed=7)


MODELS = {model: model() for model in (Toy, Talker)}  # they keep nothing of a stream


def alone(text: str, model: type[Toy] = Toy, **sampling) -> list[list[int]]:
    bench = Bench(model=MODELS[model])
    bench.speak("a", text, **sampling)
    bench.run()
    return bench.codes["a"]


def sound(bench: Bench, stream: str) -> bytes:
    return b"".join(reply.pcm for reply in bench.replies[stream] if isinstance(reply, Chunk))


def test_a_stream_is_spoken_whole() -> None:
    bench = Bench()
    bench.speak("a", "hello")
    bench.run()
    chunks = [reply for reply in bench.replies["a"] if isinstance(reply, Chunk)]
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert chunks[0].timing is not None and all(chunk.timing is None for chunk in chunks[1:])
    assert bench.replies["a"][-1] == Ended(stream="a", reason="done", frames=15)
    assert len(sound(bench, "a")) == 15 * 20 * 2
    assert bench.worker.cache.used == 0 and not bench.engine.streams


of_models = st.sampled_from(list(MODELS))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tokens_do_not_depend_on_company(data: st.DataObject) -> None:
    """Greedy and seeded, alone or in any batch with joins, leaves and cancels."""
    spoken = st.text("abcdef |", min_size=1, max_size=20).filter(lambda t: t.strip() and all(t.split("|")))
    texts = data.draw(st.lists(spoken, min_size=1, max_size=6))
    sampling = data.draw(
        st.lists(st.sampled_from([{}, RANDOM, dict(temperature=1.5, seed=3)]), min_size=len(texts), max_size=len(texts))
    )
    page_size = data.draw(st.sampled_from([8, 33, 128]))
    enough = -(-128 // page_size)  # for one stream at its longest; the others wait or are preempted
    slots, pages, model = data.draw(st.integers(1, 4)), data.draw(st.integers(enough, 3 * enough)), data.draw(of_models)
    bench = Bench(slots, pages, page_size, MODELS[model])
    bench.worker.lag = data.draw(st.sampled_from([0, 1, 2]))
    cancelled = set()
    for i, text in enumerate(texts):
        bench.speak(str(i), text, **sampling[i])
        for _ in range(data.draw(st.integers(0, 8))):
            bench.step()
        if data.draw(st.booleans()):
            victim = data.draw(st.integers(0, i))
            bench.send(Cancel(stream=str(victim)), str(victim))
            cancelled.add(victim)
    bench.run()
    for i, text in enumerate(texts):
        codes, expected = bench.codes.get(str(i), []), alone(text, model, **sampling[i])
        assert codes == (expected[: len(codes)] if i in cancelled else expected)
    assert bench.worker.cache.used == 0 and sorted(bench.engine._slots) == list(range(bench.worker.slots))


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 512])
def test_prefill_in_parts_equals_prefill_in_one_piece(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [alone(text) for text in ("a longer prompt than the budget", "short")]
    monkeypatch.setattr("voxrtc.engine.snapshot.PREFILL_TOKENS", budget)
    bench = Bench()
    bench.speak("a", "a longer prompt than the budget")
    bench.speak("b", "short")
    bench.run()
    assert [bench.codes["a"], bench.codes["b"]] == whole


def test_seeds_make_sampling_repeatable_and_different() -> None:
    assert alone("hello there", **RANDOM) == alone("hello there", **RANDOM)
    assert alone("hello there", **RANDOM) != alone("hello there", **{**RANDOM, "seed": 8})


@pytest.mark.parametrize(
    ("poison", "code"), [("a!b", "engine_error"), ("a?b", "engine_error"), ("#a", "engine_error"), ("", "invalid_request")]
)
@pytest.mark.parametrize("model", MODELS)
def test_a_failing_stream_fails_alone(model: type[Toy], poison: str, code: str) -> None:
    expected = alone("a good stream", model)
    bench = Bench(model=MODELS[model])
    bench.speak("good", "a good stream")
    bench.step()
    bench.speak("bad", poison)
    bench.run()
    assert bench.codes["good"] == expected
    assert isinstance(bench.replies["good"][-1], Ended)
    failure = bench.replies["bad"][-1]
    assert isinstance(failure, Failed) and failure.code == code
    bench.speak("next", "a good stream")  # on the pages and in the slot that the broken stream left
    bench.run()
    assert bench.codes["next"] == expected and sound(bench, "next") == sound(bench, "good")


@pytest.mark.parametrize("what", [(Toy, "voice_of"), (ToyDetokenizer, "new_state"), (ToyDetokenizer, "before")])
def test_a_stream_whose_state_cannot_be_made_fails_alone(what: tuple[type, str], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(slots=2)
    bench.speak("good", "hello")
    bench.step()

    def full(*_: object) -> NoReturn:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(*what, full)
        bench.speak("bad", "hello")
        bench.run()
    bench.speak("later", "hello")
    bench.run()
    failed = bench.replies["bad"][-1]
    assert isinstance(failed, Failed) and failed.code == "engine_error"
    assert bench.codes["good"] == bench.codes["later"] == alone("hello") and "bad" not in bench.codes
    assert bench.worker.cache.used == 0 and sorted(bench.engine._slots) == [0, 1]


@pytest.mark.parametrize("text", ["a!b", "a?b", "#a"])
def test_an_engine_whose_device_is_dead_ends(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started again, and else would fail whoever comes."""
    bench = Bench()

    def dead() -> NoReturn:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(bench.worker.device, "check", dead)
    bench.speak("refused", "")
    bench.run()
    bench.speak("bad", text)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        bench.run()


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_no_step_begins_beyond_a_streams_limit(lag: int) -> None:
    """Though the frames that reach it are not read yet: there may be no room in the cache for what follows."""
    bench = Bench()
    bench.worker.lag = lag
    ends: list[int] = []
    launch = bench.worker.launch
    bench.worker.launch = lambda tasks: ends.extend(t.start + t.count for t in tasks) or launch(tasks)  # type: ignore[method-assign]
    bench.speak("a", "hello")
    bench.run()
    assert bench.codes["a"] == alone("hello") and len(bench.codes["a"]) == 15
    assert max(ends) == 5 + 15 - 1, "the last prompt token gives the first frame"


def test_a_step_costs_what_passes_between_results() -> None:
    """Not what passes from its beginning on, when it began while the one before was under way."""
    bench = Bench()
    bench.worker.lag = 2
    seconds: list[float] = []
    bench.engine.costs.stepped = lambda took, *rest: seconds.append(took)  # type: ignore[method-assign]
    bench.speak("a", "hello")
    while len(seconds) < 8:
        bench.step()  # 0.01 s each
    assert seconds[2:8] == pytest.approx([0.01] * 6)


def test_at_most_one_frame_after_a_cancel() -> None:
    bench = Bench()
    bench.speak("a", "a stream to cancel")
    for _ in range(6):
        bench.step()
    frames = len(bench.codes["a"])
    bench.send(Cancel(stream="a"), "a")
    bench.run()
    assert len(bench.codes["a"]) == frames
    ended = bench.replies["a"][-1]
    assert isinstance(ended, Ended) and ended.reason == "cancelled" and ended.frames_after_cancel == 0
    assert bench.worker.cache.used == 0


def test_a_frame_computed_while_the_cancel_waits_is_counted() -> None:
    bench = Bench()
    bench.speak("a", "a stream to cancel")
    bench.step()
    launch = bench.worker.launch

    def cancelled_meanwhile(tasks):  # type: ignore[no-untyped-def]
        bench.send(Cancel(stream="a"), "a")
        bench.now += 0.001
        return launch(tasks)

    bench.worker.launch = cancelled_meanwhile  # type: ignore[method-assign]
    bench.step()
    bench.worker.launch = launch  # type: ignore[method-assign]
    bench.run()
    assert bench.replies["a"][-1].frames_after_cancel == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wrong", [dict(temperature=-1.0), dict(temperature=float("nan")), dict(top_p=1.5), dict(seed=2**70), dict(top_k=-1)]
)
def test_senseless_settings_are_refused(wrong: dict) -> None:
    bench = Bench()
    bench.speak("a", "hello", **wrong)
    bench.run()
    assert bench.replies["a"][-1].code == "invalid_request"  # type: ignore[union-attr]


def test_more_than_the_queue_holds_is_refused_at_once() -> None:
    bench = Bench(slots=1, max_waiting=2)
    for i in range(5):
        bench.speak(str(i), "hello")
    bench.step()
    assert [isinstance(bench.replies[str(i)][-1], Failed) if bench.replies[str(i)] else False for i in range(5)] == [
        False
    ] * 2 + [True] * 3
    assert bench.replies["4"][-1].code == "busy"  # type: ignore[union-attr]
    bench.run()
    assert bench.replies["1"][-1] == Ended(stream="1", reason="done", frames=15)


def test_a_listener_that_does_not_listen_pauses_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.engine.snapshot.MAX_AHEAD", 0.4)
    bench = Bench()
    bench.speak("a", "a rather long stream")
    bench.run()
    assert 0.4 <= len(bench.codes["a"]) / 50 <= 0.6, "it rests when 0.4 s wait to be played"
    bench.send(Playout(stream="a", played=0.2, at=bench.now, running=False), "a")
    bench.run()
    assert 0.6 <= len(bench.codes["a"]) / 50 <= 0.8
    bench.send(Playout(stream="a", played=0.2, at=bench.now, running=True), "a")
    for _ in range(500):
        bench.step()
    assert bench.replies["a"][-1] == Ended(stream="a", reason="done", frames=60)


def test_few_pages_mean_waiting_not_failing() -> None:
    bench = Bench(slots=4, pages=10)
    for name in "abcdef":
        bench.speak(name, "hello there")
    bench.run()
    assert all(bench.codes[name] == alone("hello there") for name in "abcdef")


def test_the_stream_with_most_slack_gives_way_and_comes_back_exactly() -> None:
    texts = {"a": "some long text", "b": "another long text", "c": "a third long text"}
    expected = {name: alone(text) for name, text in texts.items()}
    bench = Bench(pages=13, page_size=8)  # 7 to 9 each at their longest
    evicted: list[tuple[str, list[float | None]]] = []
    evict = bench.worker.cache.evict

    def spy(slot: int):  # type: ignore[no-untyped-def]
        streams = {s.slot: s for s in bench.engine.streams.values() if s.piece and not s.evicted}
        others = [s.slack(bench.now) for s in streams.values() if s.slot != slot]
        evicted.append((streams[slot].id, [streams[slot].slack(bench.now), *others]))
        return evict(slot)

    bench.worker.cache.evict = spy  # type: ignore[method-assign]
    for name, text in texts.items():
        bench.speak(name, text)
    bench.run()
    assert evicted, "the pages were to be too few"
    for _, (slack, *others) in evicted:
        assert all(other is None or (slack is not None and slack >= other) for other in others)
    assert bench.codes == expected
    assert bench.engine.counters.preempted == len(evicted)


def test_a_preempted_stream_can_be_cancelled() -> None:
    bench = Bench(pages=13, page_size=8)
    for name in "abc":
        bench.speak(name, "a rather long text")
    while not (gone := [s.id for s in bench.engine.streams.values() if s.evicted]):
        bench.step()
    bench.send(Cancel(stream=gone[0]), gone[0])
    bench.run()
    assert bench.worker.cache.used == 0 and sorted(bench.engine._slots) == list(range(bench.worker.slots))
    assert all(len(bench.codes[name]) == 54 for name in "abc" if name not in gone)


def test_what_can_never_fit_is_refused() -> None:
    bench = Bench(slots=1, pages=2)
    bench.speak("a", "a text that needs more than two pages")
    bench.run()
    assert bench.replies["a"][-1].code == "invalid_request"  # type: ignore[union-attr]


def test_stats_count() -> None:
    bench = Bench()
    bench.speak("a", "hello")
    bench.step()
    bench.step()
    bench.send(GetStats(call=5), "stats")
    bench.run()
    stats = bench.replies["stats"][0]
    assert stats.call == 5 and [s.stream for s in stats.streams] == ["a"] and stats.kv_pages_used > 0  # type: ignore[union-attr]


def test_it_stops_whenever_it_is_told_to() -> None:
    """Also when the word comes in just before a step, not while it waits."""
    bench = Bench()
    bench.engine._inbox.put(bench.engine._stop)
    runner = threading.Thread(target=bench.engine._run, daemon=True)
    runner.start()
    runner.join(10)
    assert not runner.is_alive()


def test_a_download_is_not_held_back_to_the_speed_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it urgent: its listener is taken to play what it has got. One that takes no more is held back."""
    monkeypatch.setattr("voxrtc.engine.snapshot.MAX_AHEAD", 0.4)
    bench = Bench()
    bench.speak("a", "a rather long stream")
    bench.run()
    began = bench.now
    bench.send(Playout(stream="a", played=0.0, at=began, running=True, taken=0.3), "a")
    bench.run()
    stream = bench.engine.streams["a"]
    assert 0.7 <= len(bench.codes["a"]) / 50 <= 0.9, "0.4 s beyond what was taken"
    assert stream.slack(began + 0.1) == pytest.approx(stream.delivered - 0.1)
    assert stream.slack(began + 99) == pytest.approx(stream.delivered - 0.3), "it cannot play what it has not taken"
    bench.send(Playout(stream="a", played=0.1, at=bench.now, running=True, taken=9.9), "a")
    bench.run()
    assert bench.replies["a"][-1] == Ended(stream="a", reason="done", frames=60)


def test_a_slow_machine_is_not_warmed_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of streams has its time, and is broken off after it; nothing of them is left or counted."""
    bench, steps = Bench(), 0
    once = bench.engine.run_once

    def slowly() -> bool:
        nonlocal steps
        bench.now, steps = bench.now + 1.0, steps + 1
        return once()

    monkeypatch.setattr(bench.engine, "run_once", slowly)
    warm_up(bench.engine)
    assert steps < 6 * 5, "of 12 frames and more for each of five numbers"
    assert not bench.engine.streams and bench.engine.counters.frames == 0
    bench.worker.cache.check_integrity()
