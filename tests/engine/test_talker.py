"""Streams of a model that hears: conversations with sound that came ahead, answered in words and sound."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.talker import EVERY, MARK, Ear, Talker
from tests.engine.toy import Bench, Inline
from voxrtc.engine import hearings
from voxrtc.engine.conversing import cut
from voxrtc.engine.hearings import Hearings
from voxrtc.engine.warming import warm_up
from voxrtc.messages.conversation import ConversationTurn, Forget, Hear, Heard, Replied, Words, Wrote
from voxrtc.messages.engine import Cancel, Chunk, Ended, Failed, Generate, Sampling
from voxrtc.speechlm.base import InvalidRequest, Prompt, Said, TooLong, Utterance

TALKER = Talker()  # keeps nothing of a stream


def pcm(*levels: float, each: int = 1600) -> bytes:
    return (np.repeat(np.array(levels), each) * 32767).astype("<i2").tobytes()


def hear(bench: Bench, id: str, sound: bytes, final: bool = True, rate: int = 8000) -> None:
    bench.send(Hear(hearing=id, pcm=sound, sample_rate=rate, first=id not in bench.replies, final=final), id)


def ask(bench: Bench, stream: str, *turns: ConversationTurn, **sampling: Any) -> None:
    request = Generate(stream=stream, text="", accepted=bench.now, conversation=turns, sampling=Sampling(**sampling))
    bench.send(request, stream)


def of(bench: Bench, stream: str, kind: type) -> list[Any]:
    return [reply for reply in bench.replies[stream] if isinstance(reply, kind)]


def text(bench: Bench, stream: str) -> str:
    return "".join(reply.text for reply in of(bench, stream, Wrote))


def frames(bench: Bench, stream: str) -> bytes:
    return b"".join(reply.frames for reply in of(bench, stream, Chunk))


def test_what_was_said_is_answered_in_words_and_sound() -> None:
    bench = Bench(model=TALKER)
    hear(bench, "ear", pcm(0.1, 0.2), final=False)
    hear(bench, "ear", pcm(0.3), final=True)
    ask(bench, "a", Words(role="system", text="Be brief."), Heard(hearing="ear"))
    bench.run()
    codes = bench.codes["a"]
    assert len(codes) == 16 and [code[1] == MARK for code in codes] == [i % EVERY == 0 for i in range(16)]
    sound = b"".join(chunk.pcm for chunk in of(bench, "a", Chunk))
    assert len(sound) == 2 * 20 * sum(code[1] != MARK for code in codes), "the sound is of the frames that make some"
    assert text(bench, "a") == TALKER.written(torch.tensor(codes)) != ""
    assert np.frombuffer(frames(bench, "a"), "<i4").reshape(-1, 2).tolist() == codes
    assert bench.replies["a"][-1] == Ended(stream="a", reason="done", frames=16)


def test_words_come_before_the_sound_beside_which_they_were_written() -> None:
    bench = Bench(model=TALKER)
    ask(bench, "a", Words(role="user", text="tell me a story"))
    bench.run()
    known, spoken, seconds = 0, [], 0.0
    for reply in bench.replies["a"]:
        match reply:
            case Wrote():
                known += len(reply.text)
            case Chunk():
                seconds += len(reply.pcm) / 2 / reply.sample_rate
                spoken += reply.spoken
                assert all(each.characters <= known for each in reply.spoken)
    assert [each.end for each in spoken] == sorted(each.end for each in spoken)
    assert spoken[-1].characters == len(text(bench, "a")) and spoken[-1].end == pytest.approx(seconds)
    run = (EVERY - 1) / TALKER.frame_rate  # of sound between two runs of text
    assert all(each.end / run == pytest.approx(round(each.end / run)) for each in spoken)


def test_a_past_reply_and_a_past_sound_count() -> None:
    """Each in its place: without either, or cut, the answer is another."""
    bench = Bench(model=TALKER)
    hear(bench, "one", pcm(0.2, 0.4))
    hear(bench, "two", pcm(0.5))
    ask(bench, "a", Heard(hearing="one"))
    bench.run()
    past, now = Heard(hearing="one"), Heard(hearing="two")
    whole, half = Replied(frames=frames(bench, "a")), Replied(frames=frames(bench, "a"), heard=0.06)
    for stream, turns in {"whole": (past, whole, now), "half": (past, half, now), "none": (past, now), "new": (now,)}.items():
        ask(bench, stream, *turns)
    bench.run()
    answers = [bench.codes[stream] for stream in ("whole", "half", "none", "new")]
    assert len({str(codes) for codes in answers}) == 4


def test_a_reply_is_cut_to_what_was_heard() -> None:
    codes = torch.tensor([[1, MARK], [2, 0], [3, 0], [4, MARK], [5, 0], [6, MARK]])
    kept = [cut(TALKER, codes, seconds)[:, 0].tolist() for seconds in (None, 0.0, 0.02, 0.04, 0.06, 9.0)]
    everything = [1, 2, 3, 4, 5, 6]
    assert kept == [everything, [], [1, 2], [1, 2, 3], everything, everything], "0.02 s a frame; words go with their sound"


@cache
def alone(count: int, seed: int) -> tuple[list[list[int]], str]:
    bench = Bench(model=TALKER)
    hear(bench, "ear", said(count))
    ask(bench, "a", Heard(hearing="ear"), seed=seed, temperature=0.9)
    bench.run()
    return bench.codes["a"], text(bench, "a")


def said(count: int) -> bytes:
    return pcm(*(0.1 * (n % 8) for n in range(count)), each=1440)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_answers_do_not_depend_on_company_or_on_how_sound_came(data: st.DataObject) -> None:
    """In any pieces, while others speak, under preemption and steps under way."""
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    bench = Bench(data.draw(st.integers(1, 3)), data.draw(st.integers(16, 24)), model=TALKER)
    bench.worker.lag = data.draw(st.sampled_from([0, 1, 2]))
    cancelled = set()
    for i, count in enumerate(counts):
        sound = said(count)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(sound) // 2), max_size=4)))
        for begin, end in zip([0, *cuts], [*cuts, len(sound) // 2], strict=True):
            hear(bench, f"ear {i}", sound[2 * begin : 2 * end], final=False)
            for _ in range(data.draw(st.integers(0, 3))):
                bench.step()
        hear(bench, f"ear {i}", b"")
        ask(bench, str(i), Heard(hearing=f"ear {i}"), seed=i, temperature=0.9)
        if data.draw(st.integers(0, 5)) == 5:
            bench.send(Cancel(stream=str(i)), str(i))
            cancelled.add(i)
    bench.run()
    for i, count in enumerate(counts):
        expected, words = alone(count, i)
        codes = bench.codes.get(str(i), [])
        if i in cancelled:
            assert codes == expected[: len(codes)]
        else:
            assert codes == expected and text(bench, str(i)) == words
    assert bench.worker.cache.used == 0 and sorted(bench.engine._slots) == list(range(bench.worker.slots))


@pytest.mark.parametrize(
    ("sound", "code", "words"),
    [
        (pcm(0.95), "engine_error", "Other listeners are not affected"),
        (pcm(-0.95), "invalid_request", "hurts"),
        (b"odd", "invalid_request", "PCM16"),
        (bytes(2 * 8 * 80_000), "invalid_request", "longer than 75 s"),
    ],
)
def test_a_failing_ear_fails_alone(sound: bytes, code: str, words: str) -> None:
    bench = Bench(model=TALKER)
    hear(bench, "good", pcm(0.1, 0.2), final=False)
    hear(bench, "bad", sound)
    hear(bench, "good", pcm(0.3))
    ask(bench, "a", Heard(hearing="good"))
    ask(bench, "b", Heard(hearing="bad"))
    ask(bench, "c", Heard(hearing="bad", text="its words"))
    ask(bench, "d", Words(role="user", text="its words"))
    bench.run()
    assert isinstance(bench.replies["a"][-1], Ended) and len(bench.codes["a"]) == 16
    failure = bench.replies["b"][-1]
    assert isinstance(failure, Failed) and failure.code == code and words in failure.message
    assert bench.codes["c"] == bench.codes["d"], "where the words are known they stand for the sound"


def test_an_ear_that_does_not_open_fails_alone() -> None:
    model = Talker()
    model.listen = lambda: 1 / 0  # type: ignore[method-assign,return-value]
    bench = Bench(model=model)
    hear(bench, "ear", pcm(0.1))
    ask(bench, "a", Heard(hearing="ear"))
    ask(bench, "b", Words(role="user", text="hello"))
    bench.run()
    assert isinstance(bench.replies["a"][-1], Failed) and isinstance(bench.replies["b"][-1], Ended)


def test_a_stream_whose_words_cannot_be_read_fails_alone() -> None:
    model = Talker()
    model.written = lambda frames: 1 / 0  # type: ignore[method-assign,return-value]
    bench = Bench(model=model)
    ask(bench, "a", Words(role="user", text="hello"))
    bench.run()
    assert isinstance(bench.replies["a"][-1], Failed) and bench.worker.cache.used == 0 and not bench.engine.streams


def test_the_oldest_turns_leave_first_and_instructions_stay() -> None:
    class Short(Talker):
        def preprocess(self, utterance: Utterance) -> Prompt:
            asked.append(utterance.conversation)
            if len(utterance.conversation) > 3:
                raise TooLong("too long")
            return super().preprocess(utterance)

    asked: list[tuple[Said, ...]] = []
    bench = Bench(model=Short())
    old = Replied(frames=np.array([[1, MARK], [2, 0]], "<i4").tobytes())
    user = [Words(role="user", text=text) for text in ("one", "two", "three")]
    ask(bench, "a", Words(role="system", text="Be brief."), user[0], old, user[1], old, user[2])
    bench.run()
    assert [turn.text for turn in asked[-1]] == ["Be brief.", "three"] and isinstance(bench.replies["a"][-1], Ended)
    ask(bench, "b", Words(role="user", text="x" * 120))
    bench.run()
    assert bench.replies["b"][-1].message == "This conversation is too long. Please say less."  # type: ignore[union-attr]


def test_what_is_gone_is_told_and_a_text_alone_is_what_somebody_typed() -> None:
    bench = Bench(model=TALKER)
    hear(bench, "ear", pcm(0.1))
    bench.send(Forget(hearing="ear"), "ear")
    ask(bench, "a", Heard(hearing="ear"))
    ask(bench, "b", Words(role="user", text="  "))
    ask(bench, "c", Words(role="user", text="hello"))
    bench.speak("d", "hello")
    bench.run()
    assert "not kept any more" in bench.replies["a"][-1].message  # type: ignore[union-attr]
    assert "nothing to answer" in bench.replies["b"][-1].message  # type: ignore[union-attr]
    assert bench.codes["c"] == bench.codes["d"]


def test_a_model_that_cannot_hear_says_so() -> None:
    bench = Bench()
    hear(bench, "ear", pcm(0.1))
    ask(bench, "a", Heard(hearing="ear"))
    bench.run()
    (refusal,) = bench.replies["a"]
    assert isinstance(refusal, Failed) and "cannot hear" in refusal.message and not len(bench.engine._prompts.hearings)


def test_the_ear_is_warmed_up_too_and_nothing_of_it_stays() -> None:
    bench = Bench(model=TALKER)
    warm_up(bench.engine)
    bench.step()
    assert bench.engine.costs.step.count and not bench.engine.streams and not len(bench.engine._prompts.hearings)


# --- who is heard when ---


class Later(Executor):
    """Runs jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Any]] = []

    def submit(self, job, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[Any] = Future()
        self.jobs.append((future, partial(job, *args, **kwargs)))
        return future

    def run(self) -> None:
        future, job = self.jobs.pop(0)
        future.set_result(job())


def test_nobody_waits_for_more_than_a_slice_of_another() -> None:
    ear, heard = Later(), []

    class Noting(Talker):
        def hear(self, hearing: Ear, samples: torch.Tensor, final: bool) -> None:
            heard.append((float(samples.max()) > 0.5, len(samples), final))
            super().hear(hearing, samples, final)

    kept = Hearings(Noting(), ear, lambda act: act())
    kept.hear(Hear(hearing="long", pcm=pcm(0.1, each=14_400), sample_rate=8000, first=True, final=True))
    kept.hear(Hear(hearing="short", pcm=pcm(0.6), sample_rate=8000, first=True))
    kept.hear(Hear(hearing="short", pcm=pcm(0.6), sample_rate=8000, final=True))
    over: list[str] = []
    kept.when_over(["short"], lambda: over.append("short"))
    kept.when_over(["long", "short"], lambda: over.append("both"))
    while ear.jobs:
        ear.run()
    assert heard == [
        (False, 4000, False),
        (True, 1600, False),
        (False, 4000, False),
        (True, 1600, True),
        (False, 4000, False),
        (False, 2400, True),
    ]
    assert over == ["short", "both"]


def test_a_hearing_that_is_forgotten_is_heard_no_further_and_holds_nobody_up() -> None:
    ear, over = Later(), list[str]()
    kept = Hearings(TALKER, ear, lambda act: act())
    kept.hear(Hear(hearing="a", pcm=bytes(32_000), sample_rate=8000, first=True))
    kept.when_over(["a"], lambda: over.append("a"))
    kept.forget("a")
    assert over == ["a"] and not len(kept) and len(ear.jobs) == 1
    ear.run()
    assert not ear.jobs


def test_the_oldest_are_forgotten_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearings, "KEPT", 1.0)
    kept = Hearings(TALKER, Inline(), lambda act: act())
    for id in "abc":
        kept.hear(Hear(hearing=id, pcm=bytes(2 * 3200), sample_rate=8000, first=True, final=True))
    assert set(kept.sounds("abc")) == {"b", "c"}


def test_sound_comes_at_the_models_rate() -> None:
    kept = Hearings(TALKER, Inline(), lambda act: act())
    for at in range(4):
        part = pcm(0.3, each=4000)
        kept.hear(Hear(hearing="a", pcm=part, sample_rate=16_000, first=at == 0, final=at == 3))
    ear = kept.sounds(["a"])["a"]
    assert ear.complete and len(ear.codes) == 5, "a second"
    assert isinstance(kept_failure(8), InvalidRequest)


def kept_failure(rate: int) -> BaseException:
    kept = Hearings(TALKER, Inline(), lambda act: act())
    kept.hear(Hear(hearing="a", pcm=bytes(100), sample_rate=rate, first=True))
    failure: BaseException = kept.sounds(["a"])["a"]
    return failure
